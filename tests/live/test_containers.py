"""Containers, cgroups and systemd units: chosen, followed, and named in what is shown.

The containers are programs in namespaces and cgroups like those that runtimes make.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sslsniff.kernel.containers.cgroup_tree import mount_of_v2
from tests.live.cgroups import Cgroup, own_cgroup
from tests.live.checks import assert_passed, assert_whole
from tests.live.sniffer import (
    IS_EMULATED,
    LOADER,
    READY,
    SSLSNIFF,
    Captured,
    without_waiting,
)
from tests.workload.curl import Request, curl, gets, results
from tests.workload.enclosure import Enclosure, outer_pid
from tests.workload.passed import Passed
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate, Server

ID, OTHER = "c0de" * 16, "beef" * 16


@pytest.fixture
def top() -> Iterator[Cgroup]:
    with own_cgroup() as made:
        yield made


@pytest.fixture
def client(
    inside: Enclosure, server_inside: Server, certificate: Certificate, tmp_path: Path
) -> "Client":
    return Client(inside, server_inside, certificate, tmp_path)


class Client:
    """Runs curl in a cgroup; each run is a process."""

    def __init__(
        self, inside: Enclosure, server: Server, certificate: Certificate, folder: Path
    ) -> None:
        self._inside = inside
        self._server = server
        self._certificate = certificate
        self._folder = folder

    def download(self, cgroup: Cgroup, size: int, *options: str) -> None:
        """Get ``size`` bytes; ``options`` are curl's."""
        requests = [Request(f"/bytes/{size}")]
        assert self._inside.run(*cgroup.command(*self._command(requests), *options)).stderr == ""

    def ask(self, cgroup: Cgroup, count: int = 1, *namespaces: str) -> list[Passed]:
        """Make requests, if there are ``namespaces`` in such of its own; return what passed."""
        return self._run(cgroup, gets(count), *namespaces)

    def _run(self, cgroup: Cgroup, requests: list[Request], *namespaces: str) -> list[Passed]:
        done = self._inside.run(*cgroup.command(*namespaces, *self._command(requests)))
        assert done.stderr == ""
        return results(done.stdout, requests)

    def _command(self, requests: list[Request]) -> list[str]:
        folder = self._folder / secrets.token_hex(4)
        folder.mkdir()
        return curl(self._server.url, requests, self._certificate, folder)


class Sniffing:
    """An sslsniff in the enclosure."""

    def __init__(self, process: "subprocess.Popen[str]", output: Path) -> None:
        self._process = process
        self._output = output

    def told(self) -> str:
        """Return the next line of standard error."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def pause(self) -> None:
        """Let it read no more events."""
        os.kill(outer_pid(self._process.pid), signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(outer_pid(self._process.pid), signal.SIGCONT)
        os.kill(self._process.pid, signal.SIGCONT)  # nsenter stops when its child does

    def stop(self) -> Captured:
        os.kill(outer_pid(self._process.pid), signal.SIGINT)
        _, stderr = self._process.communicate(timeout=PATIENCE_S)
        lines = self._output.read_text("utf-8").splitlines()
        objects = [json.loads(line) for line in lines]
        captured = Captured(objects, without_waiting(stderr), self._process.returncode)
        assert (captured.code, captured.stderr) == (0, "")
        assert_whole(captured)
        return captured


@contextlib.contextmanager
def sniffing(
    inside: Enclosure, folder: Path, *options: str, by: Sequence[str] = ()
) -> Iterator[Sniffing]:
    """Run sslsniff inside, started ``by`` another command."""
    output = folder / "captured.jsonl"
    form = ("--loader", LOADER, "--json", "-o", output)
    ending = ("--end-within", str(int(PATIENCE_S)))
    if IS_EMULATED:
        inside.run(SSLSNIFF, "list")  # so that the server's library is planned
    with inside.started(*by, SSLSNIFF, *form, *ending, *options) as process:
        made = Sniffing(process, output)
        _wait_ready(made)
        yield made


def _wait_ready(sniffer: Sniffing) -> None:
    line = sniffer.told()
    while line and not without_waiting(line):
        line = sniffer.told()
    assert line.startswith(READY), line


@pytest.fixture
def name_files(inside: Enclosure, tmp_path: Path) -> Iterator[Path]:
    """Return a folder where containerd keeps files of nerdctl's containers, in the enclosure.

    It is in a /run of its own: the folders of other runtimes may be above this checkout.
    """
    run = tmp_path / "run"
    containers = run / "containerd/io.containerd.runtime.v2.task/default"
    containers.mkdir(parents=True)
    assert inside.run("mount", "--bind", run, "/run").returncode == 0
    yield containers
    assert inside.run("umount", "/run").returncode == 0


def give_name(name_files: Path, container: str, name: str) -> None:
    (name_files / container).mkdir()
    values = {"annotations": {"nerdctl/name": name}}
    (name_files / container / "config.json").write_text(json.dumps(values))


def container_of(captured: Captured) -> list[dict[str, str | None]]:
    """Return the distinct containers of all exchanges."""
    found = {json.dumps(each["container"]) for each in captured.exchanges}
    return [json.loads(each) for each in sorted(found)]


def shown(container: str, name: str | None = None) -> dict[str, str | None]:
    """Return a container of nerdctl as JSON shows it."""
    rest = dict.fromkeys(("namespace", "pod", "pod_uid", "unit"))
    return {"runtime": "nerdctl", "id": container, "name": name, **rest}


@pytest.mark.parametrize("option", ["id", "name", "cgroup", "folder", "unit"])
def test_one_container_in_and_one_out(
    option: str, top: Cgroup, client: Client, inside: Enclosure, name_files: Path, tmp_path: Path
) -> None:
    """The cgroup that is chosen has others below it. Outside are the server and a client."""
    give_name(name_files, ID, "web")
    give_name(name_files, OTHER, "web-2")
    unit = top.below("web.service")
    within = unit.below(f"nerdctl-{ID}.scope").below("inner")
    outside = top.below("web2.service").below(f"nerdctl-{OTHER}.scope")
    options = {
        "id": ("--container", ID[:6]),
        "name": ("--container", "web"),
        "cgroup": ("--cgroup", unit.path),
        "folder": ("--cgroup", str(unit.folder)),
        "unit": ("--unit", "web"),
    }
    with sniffing(inside, tmp_path, *options[option]) as sniffer:
        client.ask(outside)
        passed = client.ask(within, 3)
        client.ask(outside)
        later = within.below("later")
        passed += client.ask(later, 2)
        captured = sniffer.stop()
    assert_passed(captured, passed, role="client")
    assert len(captured.exchanges) == 5
    assert container_of(captured) == [shown(ID, "web")]
    assert captured.summary["connections"] == 2


def test_a_container_that_starts_later_and_again(
    top: Cgroup, client: Client, inside: Enclosure, name_files: Path, tmp_path: Path
) -> None:
    """By its name; each start has another id, and the container is gone before it is looked at."""
    with sniffing(inside, tmp_path, "--container", "web") as sniffer:
        assert sniffer.told() == ("sslsniff: container web is not running yet; waiting for it\n")
        passed: list[Passed] = []
        ids = [secrets.token_hex(32) for _ in range(10)]
        for number, container in enumerate(ids):
            give_name(name_files, container, "other" if number % 2 else "web")
            cgroup = top.below(f"nerdctl-{container}.scope")
            answered = client.ask(cgroup)
            passed += [] if number % 2 else answered
            cgroup.remove()
        captured = sniffer.stop()
    assert_passed(captured, passed, role="client")
    assert {each["container"]["id"] for each in captured.exchanges} == {*ids[::2]}
    assert {each["container"]["name"] for each in captured.exchanges} == {"web"}


@pytest.mark.parametrize("when", ["before", "later"])
def test_the_kernel_leaves_out_what_is_outside(
    when: str, top: Cgroup, client: Client, inside: Enclosure, tmp_path: Path
) -> None:
    """So what passes there takes no room, also in a cgroup that was made later."""
    outside = top.below("before")
    within = top.below("within")
    options = ("--cgroup", within.path, "--ring-size", "4M")
    with sniffing(inside, tmp_path, *options) as sniffer:
        if when == "later":
            outside = top.below("later")
            client.ask(outside)
            time.sleep(1)  # until the event of the cgroup was read
        passed = client.ask(within)
        sniffer.pause()
        client.download(outside, 10 << 20)
        sniffer.go_on()
        passed += client.ask(within)
        captured = sniffer.stop()
    assert_passed(captured, passed, role="client")
    assert len(captured.exchanges) == 2


def test_many_short_processes_and_containers(
    top: Cgroup, client: Client, inside: Enclosure, tmp_path: Path
) -> None:
    """Of each the container is known, though neither is there any more when it is looked up."""
    stays = top.below(f"nerdctl-{ID}.scope")
    with sniffing(inside, tmp_path, "--all") as sniffer:
        passed = [each for _ in range(50) for each in client.ask(stays)]
        ids = [secrets.token_hex(32) for _ in range(10)]
        for container in ids:
            cgroup = top.below(container)
            passed += client.ask(cgroup)
            cgroup.remove()
        captured = sniffer.stop()
    assert_passed(captured, passed, role="client")
    clients = [each for each in captured.exchanges if each["role"] == "client"]
    containers = [each["container"]["id"] for each in clients]
    assert containers.count(ID) == 50
    assert {*containers} == {ID, *ids}
    assert len({each["pid"] for each in clients}) == 60
    servers = [each for each in captured.exchanges if each["role"] == "server"]
    assert [each["container"] for each in servers] == [None] * 60


def test_both_process_ids(
    top: Cgroup, client: Client, inside: Enclosure, server_inside: Server, tmp_path: Path
) -> None:
    """A container has a PID namespace of its own; sslsniff is in one, too, as the server is."""
    container = top.below(f"nerdctl-{ID}.scope")
    namespaces = ("unshare", "--pid", "--fork", "--mount-proc", "--cgroup", "--uts", "--ipc")
    with sniffing(inside, tmp_path, "--all") as sniffer:
        client.ask(container, 1, *namespaces)
        client.ask(container)
        captured = sniffer.stop()
    inner, same = [each for each in captured.exchanges if each["role"] == "client"]
    assert inner["container_pid"] == 1
    assert inner["pid"] not in {1, same["pid"], server_inside.pid}
    assert same["container_pid"] is None
    assert inner["container"] == same["container"] == shown(ID)


@pytest.mark.heavy
def test_sslsniff_in_a_cgroup_namespace(
    top: Cgroup, client: Client, inside: Enclosure, name_files: Path, tmp_path: Path
) -> None:
    """It sees no folder of the cgroups outside, as in a container with the host's processes."""
    give_name(name_files, ID, "web")
    mount = mount_of_v2()
    assert mount is not None
    script = 'umount "$0" && mount -t cgroup2 cgroup2 "$0" && exec "$@"'
    apart = ("unshare", "--cgroup", "--mount", "sh", "-c", script, str(mount))
    within, outside = top.below(f"nerdctl-{ID}.scope"), top.below(f"nerdctl-{OTHER}.scope")
    by = top.below("own").command(*apart)
    with sniffing(inside, tmp_path, "--container", "web", by=by) as sniffer:
        assert sniffer.told() == "sslsniff: container web is not running yet; waiting for it\n"
        for cgroup in (outside, within):  # they are known by what runs in them, for 2 s
            client.download(cgroup, 2_000_000, "--limit-rate", "1M")
        later = top.below("later").below(f"nerdctl-{ID}.scope")
        client.ask(later)
        client.ask(within)
        captured = sniffer.stop()
    assert len(captured.exchanges) == 3
    assert container_of(captured) == [shown(ID, "web")]


@pytest.mark.heavy
def test_a_container_in_cgroup_v1(client: Client, inside: Enclosure, tmp_path: Path) -> None:
    """Beside v2, where the process is in the root, as with runtimes on older hosts."""
    mount = Path("/sys/fs/cgroup/pids")
    if not mount.is_dir():
        pytest.skip("this host has no cgroup v1")
    with own_cgroup(mount) as top:
        container = top.below("default").below(ID)
        with sniffing(inside, tmp_path, "--all") as sniffer:
            client.download(container, 2_000_000, "--limit-rate", "1M")  # 2 s of /proc/PID
            captured = sniffer.stop()
    clients = [each for each in captured.exchanges if each["role"] == "client"]
    assert [each["container"] for each in clients] == [shown(ID)]
