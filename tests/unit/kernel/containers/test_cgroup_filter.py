"""Which cgroups ``--container``, ``--cgroup`` and ``--unit`` choose."""

import time
from pathlib import Path

import pytest

from sslsniff.core.errors import TargetError
from sslsniff.kernel.containers.cgroup_filter import CgroupFilter
from tests.unit.kernel.containers import runtime_files as files

WEB = f"/system.slice/docker-{files.DOCKER}.scope"
DB = f"/machine.slice/libpod-{files.PODMAN}.scope"
APP = f"/{files.SLICE}/cri-containerd-{files.POD}.scope"
NGINX = "/system.slice/nginx.service"
PATHS = {*(f"/{each}" for each in files.CGROUPS), WEB, "/", "/system.slice"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files.make(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"containers": ["web"]}, {WEB, f"{WEB}/inner"}),
        ({"containers": [files.DOCKER]}, {WEB, f"{WEB}/inner"}),
        ({"containers": [files.PODMAN[:4]]}, {DB}),
        ({"containers": ["db", "mine"]}, {DB, f"/user.slice/libpod-{files.ROOTLESS}.scope"}),
        ({"containers": ["app"]}, {APP}),
        ({"containers": ["shop-1/app"]}, {APP}),
        ({"containers": ["prod/shop-1/app"]}, {APP}),
        ({"containers": ["old"]}, {"/lxc.payload.old"}),
        ({"units": ["nginx"]}, {NGINX}),
        ({"units": ["nginx.service"]}, {NGINX}),
        ({"cgroups": ["/system.slice/nginx.service/"]}, {NGINX}),
        ({"cgroups": ["0::/system.slice/nginx.service"]}, {NGINX}),
        ({"cgroups": ["machine.slice"]}, {DB, f"/{files.CGROUPS[2]}"}),
        ({"cgroups": ["/system.slic"]}, set()),
        ({"cgroups": ["/"]}, PATHS),
        ({"cgroups": ["/system.slice"], "containers": ["web", "db"]}, {WEB, f"{WEB}/inner"}),
        ({"units": ["nginx"], "containers": ["web"]}, set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_what_is_chosen(root: Path, options: dict[str, list[str]], chosen: set[str]) -> None:
    made = CgroupFilter(**options, root=root)
    assert {path for path in PATHS if made.matches(path)} == chosen


def test_a_cgroup_by_its_folder(root: Path) -> None:
    made = CgroupFilter(
        cgroups=[f"{root}/sys/fs/cgroup/system.slice/x/../nginx.service"], root=root
    )
    assert {path for path in PATHS if made.matches(path)} == {NGINX}
    assert made.waits_for == []


def test_a_folder_of_cgroup_v1_is_an_error(root: Path) -> None:
    with pytest.raises(TargetError, match="/sys/fs/cgroup/pids/docker is no cgroup v2: name one"):
        CgroupFilter(cgroups=["/sys/fs/cgroup/pids/docker"], root=root)


def test_what_comes_later_is_waited_for(root: Path) -> None:
    made = CgroupFilter(["soon", "old-one"], ["/a"], ["a@b"], root=root)
    assert made.waits_for == [
        "container soon is not running yet",
        "container old-one is not running yet",
        "there is no cgroup /a yet",
        "unit a@b.service is not active yet",
    ]
    made = CgroupFilter(["old-one"], root=root)
    assert made.matches(f"/docker/{files.STOPPED}")


def test_a_container_with_a_name_is_followed_to_its_next_id(root: Path) -> None:
    made = CgroupFilter(["web"], root=root)
    again = "77" * 32
    assert made.lacks_name(f"/docker/{again}")
    assert not made.matches(f"/docker/{again}")
    time.sleep(0.1)
    config = {"Name": "/web", "Config": {}}
    files.write(root, f"var/lib/docker/containers/{again}/config.v2.json", config)
    assert not made.lacks_name(f"/docker/{again}")
    assert made.matches(f"/docker/{again}/init")


def test_a_stopped_container_is_known_by_its_id(root: Path) -> None:
    made = CgroupFilter(["d0ffd0ff"], root=root)
    assert made.waits_for == ["container d0ffd0ff is not running yet"]
    assert made.matches(f"/docker/{files.STOPPED}")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("123456789abc", "there is no container 123456789abc: see docker ps, podman ps"),
        ("a", None),  # as short as this it is a name
        ("a1a1a1", None),
    ],
)
def test_an_id_that_does_not_exist_is_an_error(
    root: Path, wanted: str, message: str | None
) -> None:
    if message is None:
        CgroupFilter([wanted], root=root)
    else:
        with pytest.raises(TargetError, match=message):
            CgroupFilter([wanted], root=root)


@pytest.mark.parametrize("wanted", ["7788", "twin"])
def test_an_ambiguous_container_is_an_error_with_the_candidates(root: Path, wanted: str) -> None:
    """By the beginning of an id, and by a name: two pods may have containers of one name."""
    for number in range(2):
        container = f"7788{number}".ljust(64, "0")
        (root / "sys/fs/cgroup/docker" / container).mkdir(parents=True)
        labels = {"io.kubernetes.pod.name": f"pod-{number}"}
        config = {"Name": "/twin", "Config": {"Labels": labels}}
        files.write(root, f"var/lib/docker/containers/{container}/config.v2.json", config)
    candidates = r"(pod-[01]/twin \(7788[01]0000000\)(, |$|: )){2}"
    with pytest.raises(TargetError, match=f"--container {wanted} is ambiguous: {candidates}"):
        CgroupFilter([wanted], root=root)
    made = CgroupFilter(["pod-1/twin"], root=root)
    assert made.matches("/docker/" + "77881".ljust(64, "0"))
    assert not made.matches("/docker/" + "77880".ljust(64, "0"))


def test_without_cgroup_v2_there_is_an_error(root: Path) -> None:
    (root / "proc/self/mountinfo").write_text(
        "30 23 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    )
    with pytest.raises(TargetError, match="need cgroup v2, which is not mounted here: use --pid"):
        CgroupFilter(["web"], root=root)
