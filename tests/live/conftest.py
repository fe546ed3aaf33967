"""Certificates, servers and the sniffer for the live tests."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live.late import Late
from tests.live.sniffer import Sniffer, sniffing
from tests.live.watching import ENGINES, Watch
from tests.workload.certificates import Authority, authority
from tests.workload.debian import merge_headers
from tests.workload.enclosure import Enclosure, enclosure, inner_pid, outer_pid
from tests.workload.load import Load
from tests.workload.processes import PROGRAMS
from tests.workload.servers import Certificate, Server, python_server, self_signed


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server(certificate: Certificate) -> Iterator[Server]:
    with python_server(certificate) as running:
        yield running


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enclosure]:
    with enclosure(tmp_path_factory.mktemp("libraries")) as made:
        yield made


@pytest.fixture(scope="module")
def server_inside(inside: Enclosure, certificate: Certificate) -> Iterator[Server]:
    program = (
        sys.executable,
        PROGRAMS / "python/server.py",
        certificate.certificate,
        certificate.key,
    )
    with inside.started(*program) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Server(inner_pid(outer_pid(process.pid)), port)


@pytest.fixture
def sniff(tmp_path: Path) -> Callable[..., AbstractContextManager[Sniffer]]:
    """Return a function that runs sslsniff with the given arguments, in this test's folder."""
    return partial(sniffing, tmp_path)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def watch(engine: str, tmp_path: Path) -> Watch:
    """Return what runs a command under sslsniff, by each engine, in this test's folder."""
    return Watch(tmp_path, engine)


@pytest.fixture
def bystander() -> Iterator[str]:
    """Return the number of a process that does nothing."""
    process = subprocess.Popen(["sleep", "60"])
    yield str(process.pid)
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Return tests/workload/c/load.c, ready to run."""
    program = tmp_path_factory.mktemp("load") / "load"
    subprocess.run(
        [
            "gcc",
            "-O2",
            "-Wall",
            "-Werror",
            "-o",
            program,
            PROGRAMS / "c/load.c",
            "-lssl",
            "-lcrypto",
        ],
        check=True,
    )
    return Load(program)


@pytest.fixture(scope="session")
def own_library() -> Iterator[Path]:
    """Return a copy of libssl.so.3, readable for all: only who is told to uses it."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-") as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copy(dict(procfs.libraries())["libssl.so.3"], folder))


@pytest.fixture(scope="session")
def late_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tests/workload/c/late_client.c, ready to run."""
    program = tmp_path_factory.mktemp("late") / "late_client"
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
    subprocess.run(["gcc", *flags, "-o", program, PROGRAMS / "c/late_client.c"], check=True)
    return program


@pytest.fixture
def late(late_client: Path, server: Server, tmp_path: Path) -> Late:
    library = dict(procfs.libraries())["libssl.so.3"]

    def command(*options: str, nonce: str = "late") -> list[str]:
        copy = shutil.copy(library, tmp_path / f"{nonce}-libssl.so.3")
        return [str(late_client), str(server.port), str(copy), nonce, *options]

    return command


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    """Return Debian's two folders of kernel headers as one; those of any kernel serve."""
    sources = Path("/usr/src")
    own = max(each.name for each in sources.glob("linux-headers-*-amd64"))
    return merge_headers(sources, own, tmp_path / "headers")


@pytest.fixture(params=["co-re", "bcc"])
def loader(request: pytest.FixtureRequest) -> str:
    if request.param == "bcc":
        headers: Path = request.getfixturevalue("headers")
        request.getfixturevalue("monkeypatch").setenv("BCC_KERNEL_SOURCE", str(headers))
    return str(request.param)
