"""Containers of processes, from the records of the kernel."""

import time
from pathlib import Path

import pytest

from sslsniff.capture import process_containers
from sslsniff.capture.process_containers import ProcessContainers
from sslsniff.core.events import CgroupMade, Exited, Opened
from sslsniff.decoders.messages import Side
from sslsniff.kernel.containers import cgroup_tree
from sslsniff.kernel.containers.cgroup_filter import CgroupFilter
from tests.unit.kernel.containers import runtime_files as files

GONE = 4_194_304  # above any pid_max
OPENED = Opened(0, GONE, 1, GONE, 0, "demo", 0, Side.CLIENT, True, cgroup=77)


def undecided(cgroup: int, is_watched: bool) -> None:
    raise AssertionError("without a filter nothing is to be decided")


def container_id(made: ProcessContainers, event: Opened = OPENED) -> str | None:
    shown = made.handle(event)
    assert isinstance(shown, Opened)
    return shown.container and shown.container.id


def test_the_path_of_a_cgroup_that_is_gone_is_known_if_it_was_reported() -> None:
    made = ProcessContainers(None, undecided)
    assert made.handle(CgroupMade(0, 77, f"/docker/{files.DOCKER}")) is None
    assert container_id(made) == files.DOCKER
    assert container_id(made, OPENED._replace(cgroup=1 << 60)) is None  # it was not


def test_a_process_is_looked_up_once_and_again_after_its_end() -> None:
    made = ProcessContainers(None, undecided)
    made.handle(CgroupMade(0, 77, f"/docker/{files.DOCKER}"))
    assert container_id(made) == files.DOCKER
    made.handle(CgroupMade(0, 77, f"/docker/{files.PODMAN}"))
    assert container_id(made) == files.DOCKER
    exited = Exited(0, GONE)
    assert made.handle(exited) == exited
    assert container_id(made) == files.PODMAN
    made.handle(CgroupMade(0, 78, f"/docker/{files.DOCKER}"))  # it was moved
    assert container_id(made, OPENED._replace(cgroup=78)) == files.DOCKER


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_containers, "_MOST_PATHS", 8)
    monkeypatch.setattr(process_containers, "_MOST_PROCESSES", 8)
    made = ProcessContainers(None, undecided)
    for number in range(100):
        made.handle(CgroupMade(0, number, f"/docker/{files.DOCKER}"))
        assert container_id(made, OPENED._replace(pid=GONE + number, cgroup=number))
    assert max(len(made._paths), len(made._processes)) <= 8


def test_all_cgroups_are_decided(tmp_path: Path) -> None:
    """Those that there are, and each new one; of one without a name yet, its first process."""
    mount = files.make(tmp_path)
    decided: dict[int, bool] = {}
    chosen = CgroupFilter(["web"], root=tmp_path)
    made = ProcessContainers(chosen, decided.__setitem__)
    made._mount = mount
    made.begin()
    paths = dict(cgroup_tree.walk(mount))
    assert decided.keys() == paths.keys()
    web = f"/system.slice/docker-{files.DOCKER}.scope"
    assert {paths[each] for each, is_watched in decided.items() if is_watched} == {
        web,
        f"{web}/inner",
    }
    made.handle(CgroupMade(0, 77, "/other.service"))
    assert decided[77] is False
    assert made.handle(OPENED) is None
    made.handle(CgroupMade(0, 78, f"{web}/other"))
    assert decided[78] is True
    again = "77" * 32
    made.handle(CgroupMade(0, 79, f"/docker/{again}"))
    assert 79 not in decided
    time.sleep(0.1)
    config = {"Name": "/web", "Config": {}}
    files.write(tmp_path, f"var/lib/docker/containers/{again}/config.v2.json", config)
    assert container_id(made, OPENED._replace(pid=GONE + 1, cgroup=79)) == again
    assert decided[79] is True
    assert made.handle(OPENED._replace(pid=GONE + 2, cgroup=1 << 60)) is None
    assert made.unknown == 1
