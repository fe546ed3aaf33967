"""An object store that others wrote, and what is in it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, S3FileSystem

from tests.workload.ports import free_port, wait_until_open

BUCKET = "traffic"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_MOTO = Path(sys.executable).with_name("moto_server")


class Store:
    """A running store; its port and its process."""

    def __init__(self, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.port = port
        self.process = process

    def url(self, folder: str = f"{BUCKET}/tables") -> str:
        """Return the URL of a folder."""
        return f"s3://{folder}?endpoint_override=127.0.0.1:{self.port}&scheme=http"

    @property
    def files(self) -> S3FileSystem:
        """The store as pyarrow sees it."""
        return S3FileSystem(
            access_key="test",
            secret_key="test",
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
            allow_bucket_creation=True,
        )

    def rows(self) -> int:
        """Return how many rows all files have, each of which is whole."""
        files = self.files
        with contextlib.suppress(FileNotFoundError):
            found = files.get_file_info(FileSelector(f"{BUCKET}/tables", recursive=True))
            paths = [each.path for each in found if each.is_file]
            return sum(pq.read_metadata(path, filesystem=files).num_rows for path in paths)
        return 0


@contextlib.contextmanager
def running_store() -> Iterator[Store]:
    """Run a store with an empty bucket."""
    port = free_port()
    command: list[str | Path] = [_MOTO, "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_open(port)
            found = Store(port, process)
            found.files.create_dir(BUCKET)
            yield found
        finally:
            process.kill()
