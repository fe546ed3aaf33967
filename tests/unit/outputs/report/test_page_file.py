"""The file of a report: whole, or a page that says that there is none yet."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sslsniff.cli.main import main
from sslsniff.core.errors import OutputError
from tests.unit.exchanges import exchange, request, response
from tests.unit.outputs.report.many import write_many
from tests.unit.outputs.report.pages import Parts, killed_while_writing, sink
from tests.workload.mounts import apart

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
UNFINISHED = b"<title>No report yet</title>"
END = b"</body>\n</html>\n"


def test_until_its_end_it_says_that_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    with path.open("wb") as file:
        report = sink(file)
        assert UNFINISHED in path.read_bytes()
        assert path.read_bytes().endswith(b"<plaintext hidden>\n")
        report.exchange(exchange(request(), response()))
        report.close()
        whole = path.read_bytes()
    assert UNFINISHED not in whole
    assert whole.endswith(END)
    assert len(Parts(whole).rows) == 1


@pytest.mark.heavy
def test_it_goes_through_a_pipe_and_to_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"before\n")
    command = f"{SSLSNIFF} report pcaps/http1-keep-alive.pcapng -o - "
    subprocess.run(f"{command} >> {path}", shell=True, check=True, capture_output=True)
    piped = subprocess.run(f"{command} | cat", shell=True, check=True, capture_output=True).stdout
    assert piped.startswith(b"<!doctype html>")
    assert piped.endswith(END)
    assert path.read_bytes() == b"before\n" + piped


@pytest.mark.heavy
def test_a_full_disk_leaves_the_page_that_there_is_none(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=128k none {full} && {SSLSNIFF} report"
    mount += (
        f" pcaps/http1-keep-alive.pcapng -o {full}/a.html; code=$?; cat {full}/a.html; exit $code"
    )
    done = subprocess.run(apart("sh", "-c", mount), capture_output=True)
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout.endswith(b"<plaintext hidden>\n")


def test_an_error_is_raised_if_it_cannot_be_written() -> None:
    with Path("/dev/full").open("wb", buffering=0) as file:
        report = sink(file)
        with pytest.raises(OutputError, match="No space left"):
            report.close()


@pytest.mark.heavy
def test_a_killed_sslsniff_leaves_one_of_both(tmp_path: Path) -> None:
    """It is killed at random times, most of them while it writes."""
    capture, path = tmp_path / "many.pcapng", tmp_path / "a.html"
    write_many(capture, 1000)
    began = time.monotonic()
    assert main(["report", str(capture), "-o", str(path)]) == 0
    whole = path.read_bytes()
    took_s = time.monotonic() - began
    choose = random.Random(3)
    for _ in range(10):
        path.unlink()
        with subprocess.Popen(
            [SSLSNIFF, "report", capture, "-o", path], stderr=subprocess.DEVNULL
        ) as process:
            while not (path.exists() and path.stat().st_size):
                time.sleep(0.001)
            time.sleep(choose.uniform(0.2, 1.1) * took_s)
            process.kill()
        found = path.read_bytes()
        assert found == whole or UNFINISHED in found[:600]


def test_killed_while_it_writes_it_leaves_the_page_that_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    done = subprocess.run([sys.executable, "-c", killed_while_writing(path)])
    assert done.returncode == -signal.SIGKILL
    found = path.read_bytes()
    assert len(found) > 1 << 20
    assert UNFINISHED in found[:600]
    assert found.index(b"<plaintext hidden>\n") < found.index(b"<script>") - 3000


def test_existing_files_are_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.html"
    path.write_text("mine")
    command = ["report", "pcaps/http1-keep-alive.pcapng", "-o", str(path)]
    assert main(command) == 1
    assert "overwrite with --force" in capfd.readouterr().err
    assert path.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert path.read_bytes().endswith(END)
    assert path.stat().st_mode & 0o777 == 0o600


def test_text_and_a_report_do_not_share_an_output(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["read", "pcaps/http1-keep-alive.pcapng", "--report", "-", "--print"]
    assert main(command) == 1
    assert "--report and text both go to standard output" in capfd.readouterr().err
