"""An object store that others wrote, and what is in it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, S3FileSystem

from tests.workload.ports import free_port, listening

BUCKET = "traffic"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_MOTO = Path(sys.executable).with_name("moto_server")


_S3PROXY = Path(__file__).resolve().parents[2] / ".cache" / "s3proxy"
CHECKED_KEYS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    # S3Proxy does not know the newest checksums.
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
}
_CHECKING = """
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity=local
s3proxy.credential=secret
jclouds.provider=filesystem
jclouds.identity=none
jclouds.credential=none
jclouds.filesystem.basedir={folder}
"""


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
    with listening(command, port) as process:
        found = Store(port, process)
        found.files.create_dir(BUCKET)
        yield found


@contextlib.contextmanager
def checking_store(folder: Path) -> Iterator[str]:
    """Run a store that lets in only who has ``CHECKED_KEYS``; yield the URL of its bucket.

    What is in the bucket is in ``folder``, too.
    """
    port = free_port()
    settings = folder.with_name("s3proxy.conf")
    settings.write_text(_CHECKING.format(port=port, folder=folder))
    (folder / BUCKET).mkdir(parents=True)
    command: list[str | Path] = ["java", "-cp", f"{_S3PROXY}/*", "org.gaul.s3proxy.Main"]
    command += ["--properties", settings]
    with listening(command, port):
        yield f"s3://{BUCKET}/tables?endpoint_override=127.0.0.1:{port}&scheme=http"
