"""Names of containers, from the files that runtimes keep."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sslsniff.core.process import Container
from sslsniff.kernel.containers import container_names
from sslsniff.kernel.containers.container_names import ContainerNames
from tests.unit.kernel.containers import runtime_files as files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files.make(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("container", "shown"),
    [
        (files.DOCKER, Container("docker", files.DOCKER, "web")),
        (files.PODMAN, Container(None, files.PODMAN, "db")),
        (files.ROOTLESS, Container("podman", files.ROOTLESS, "mine")),
        (files.NERDCTL, Container("nerdctl", files.NERDCTL, "cache")),
        (files.POD, Container("containerd", files.POD, "app", "prod", "shop-1")),
        (files.SIDECAR, Container(None, files.SIDECAR, "side-car", "prod", "shop-1")),
        (files.CRIO, Container("cri-o", files.CRIO, "proxy", "prod", "edge-2")),
        ("ab" * 32, Container(None, "ab" * 32)),
    ],
)
def test_names(root: Path, container: str, shown: Container) -> None:
    names = ContainerNames(root)
    assert names.complete(Container(None, container)) == shown
    assert names.complete(Container(None, container)) == shown


def test_what_the_cgroup_says_stays(root: Path) -> None:
    known = Container("podman", files.PODMAN, unit="a.service", pod_uid="7")
    assert ContainerNames(root).complete(known) == known._replace(name="db")
    assert ContainerNames(root).complete(Container("lxc", None, "x")) == Container("lxc", None, "x")


def test_a_name_may_come_later(tmp_path: Path) -> None:
    """Files are searched at most ten times a second."""
    names = ContainerNames(tmp_path)
    assert names.complete(Container(None, files.DOCKER)).name is None
    files.make(tmp_path)
    assert names.complete(Container(None, files.DOCKER)).name is None
    time.sleep(container_names._RETRY_S)
    assert names.complete(Container(None, files.DOCKER)).name == "web"


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_names, "_MOST_KNOWN", 8)
    names = ContainerNames(tmp_path)
    for number in range(100):
        names.complete(Container(None, f"{number:064x}"))
    assert len(names._known) + len(names._searched_s) <= 8


@pytest.mark.tools
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces here")
def test_inside_a_container_that_shares_the_processes(root: Path) -> None:
    """The files are where process 1 has them; here they are hidden, as in an image."""
    script = f"""
from {Container.__module__} import Container
from {ContainerNames.__module__} import ContainerNames
print(ContainerNames().complete(Container(None, "{files.DOCKER}")).name)
"""
    environment = os.environ | {"PYTHON": sys.executable, "SCRIPT": script, "ROOT": str(root)}
    hidden = 'mount -t tmpfs none /var; exec "$PYTHON" -c "$SCRIPT"'
    first = 'mount --bind "$ROOT/var" /var; '
    apart = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c")

    def found(command: str) -> str:
        return subprocess.run(
            [*apart, command], env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    assert found(f"{first} unshare --mount sh -c '{hidden}'") == "web\n"
    assert found(first + hidden) == "None\n"


def test_all_that_exist_are_listed(root: Path) -> None:
    found = {each.id: each.name for each in ContainerNames(root).existing()}
    assert found[files.STOPPED] == "old-one"
    assert len(found) == 8


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"Name": 1}', b'{"Name": "/web"}', b"\xff" * 99, b"[" * 99999]
)
def test_broken_files_are_skipped(root: Path, content: bytes) -> None:
    file = root / f"var/lib/docker/containers/{files.DOCKER}/config.v2.json"
    file.write_bytes(content)
    assert ContainerNames(root).complete(Container(None, files.DOCKER)).name is None
    assert files.STOPPED in {each.id for each in ContainerNames(root).existing()}


def test_a_fifo_and_a_large_file_are_not_read(root: Path) -> None:
    file = root / f"var/lib/docker/containers/{files.DOCKER}/config.v2.json"
    file.unlink()
    os.mkfifo(file)
    assert ContainerNames(root).complete(Container(None, files.DOCKER)).name is None
    file.unlink()
    file.write_text('{"Name": "/web", "Config": {}}' + " " * (9 << 20))
    assert ContainerNames(root).complete(Container(None, files.DOCKER)).name is None
