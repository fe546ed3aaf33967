"""``--parquet s3://...``: tables in an object store, and what happens without it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector

from tests.workload.object_store import (
    BUCKET,
    CHECKED_KEYS,
    KEYS,
    Store,
    checking_store,
    running_store,
)
from tests.workload.ports import free_port

pytestmark = pytest.mark.heavy

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURE = Path("pcaps/http2-multiplexed.pcapng")


@pytest.fixture
def store() -> Iterator[Store]:
    with running_store() as running:
        yield running


def read(url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SSLSNIFF, "read", CAPTURE, "--parquet", url, *options],
        env=os.environ | KEYS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_rows_are_there(store: Store) -> None:
    done = read(store.url())
    assert done.returncode == 0
    assert store.rows() == 8
    assert f"sslsniff: files to s3://{BUCKET}/tables: 1 delivered, 0 dropped\n" in done.stderr
    [file] = [
        each.path
        for each in store.files.get_file_info(FileSelector(BUCKET, recursive=True))
        if each.is_file
    ]
    assert file.startswith(f"{BUCKET}/tables/date=")


def test_a_store_that_pauses(store: Store) -> None:
    """It is asked before the capture begins; the upload waits."""
    with subprocess.Popen(
        [SSLSNIFF, "read", "-", "--parquet", store.url()],
        env=os.environ | KEYS,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        data = CAPTURE.read_bytes()
        process.stdin.write(data[: len(data) // 2])
        process.stdin.flush()
        time.sleep(3)
        os.kill(store.process.pid, signal.SIGSTOP)
        process.stdin.write(data[len(data) // 2 :])
        process.stdin.close()
        time.sleep(2)
        assert process.poll() is None
        os.kill(store.process.pid, signal.SIGCONT)
        assert process.wait(40) == 0
    assert store.rows() == 8


def test_no_such_bucket(store: Store) -> None:
    done = read(store.url("nowhere/tables"))
    assert done.returncode == 1
    assert done.stderr.startswith("sslsniff: s3://nowhere/tables?endpoint_override=")
    assert done.stderr.endswith("there is no bucket nowhere: make it first\n")


def test_nobody_answers() -> None:
    url = f"s3://{BUCKET}/tables?endpoint_override=127.0.0.1:{free_port()}&scheme=http"
    done = read(url)
    assert done.returncode == 1
    assert done.stderr.startswith(f"sslsniff: {url}: ")
    assert done.stderr.endswith(": check address, keys and region\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "file:///tmp/x", "s3://", "s3:///x", "s3://b/x?no_such=1"]
)
def test_what_is_no_store(url: str) -> None:
    done = read(url)
    assert done.returncode == 1
    assert done.stderr.startswith(f"sslsniff: {url}: ")
    assert done.stderr.endswith(": use a URL such as s3://bucket/folder\n")
    assert len(done.stderr.splitlines()) == 1


def test_keys_in_a_url_are_not_shown(store: Store) -> None:
    url = store.url().replace("s3://", "s3://test:very-secret@")
    done = read(url)
    assert (done.returncode, store.rows()) == (0, 8)
    wrong = read(url.replace(BUCKET, "nowhere"))
    assert wrong.returncode == 1
    unknown = read("s3://test:very-secret@bucket/x?no_such=1")
    assert unknown.returncode == 1
    assert "very-secret" not in done.stderr + wrong.stderr + unknown.stderr


@pytest.mark.parametrize("key", ["secret", "another"])
def test_a_store_that_checks_keys(key: str, tmp_path: Path) -> None:
    """AWS's signatures, version 4: with a wrong key nothing begins, and it is said why."""
    folder = tmp_path / "store"
    with checking_store(folder) as url:
        keys = CHECKED_KEYS | {"AWS_SECRET_ACCESS_KEY": key}
        done = subprocess.run(
            [SSLSNIFF, "read", CAPTURE, "--parquet", url],
            env=os.environ | keys,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    files = [*(folder / BUCKET).glob("tables/date=*/hour=*/*.parquet")]
    assert done.returncode == (key != "secret")
    assert len(files) == (key == "secret")
    if files:
        assert pq.read_metadata(files[0]).num_rows == 8
    else:
        assert "ACCESS_DENIED" in done.stderr
        assert done.stderr.endswith(": check address, keys and region\n")
        assert "Traceback" not in done.stderr
