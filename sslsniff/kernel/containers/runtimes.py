"""Reads container, pod and systemd unit from the path of a cgroup.

Pure: a table of the names that runtimes give to cgroups. A path has one container for each level of
nesting, the outermost first. Monitors that a runtime starts beside a container are not the
container: ``libpod-conmon-ID.scope``, ``crio-conmon-ID.scope``, ``lxc.monitor.NAME``.
"""

import re
from typing import NamedTuple

from sslsniff.core.process import Container

_ID = r"(?P<id>[0-9a-f]{64})"
_BUILD = r"(?P<id>[0-9a-z]{25})"
_NAME = r"(?P<name>[^/]+?)"
_ANY = r"[^/]*/"  # the folder above has any name


class _Rule(NamedTuple):
    """A container's cgroup: ``pattern`` matches its name, with that of the folder above.

    ``runtime``: None if several runtimes name their cgroups so.
    """

    runtime: str | None
    pattern: re.Pattern[str]


# The first that matches counts. SLICE:PREFIX:NAME becomes SLICE/PREFIX-NAME.scope in runc's systemd
# driver (opencontainers/cgroups systemd/common.go, UnitName); its cgroupfs driver takes the path
# as it is.
_RULES = tuple(
    _Rule(runtime, re.compile(pattern))
    for runtime, pattern in (
        # moby daemon/oci_linux.go, WithCgroups: system.slice:docker:ID, or /docker/ID.
        ("docker", rf"{_ANY}docker-{_ID}\.scope"),
        ("docker", rf"docker/{_ID}"),
        # moby builder/builder-next/executor_linux.go, and buildkit executor/oci/spec.go: its own
        # 25 characters.
        ("buildkit", rf"{_ANY}docker-{_BUILD}\.scope"),
        ("buildkit", rf"buildkit/{_BUILD}"),
        # podman libpod/container_internal_linux.go, getOCICgroupPath: machine.slice:libpod:ID, or
        # /libpod_parent/libpod-ID.
        ("podman", rf"{_ANY}libpod-{_ID}(\.scope)?"),
        # cri-o internal/config/cgmgr/: SLICE:crio:ID, or POD/crio-ID.
        ("cri-o", rf"{_ANY}crio-{_ID}(\.scope)?"),
        # containerd pkg/cri, GetCgroupsPath: SLICE:cri-containerd:ID; a runtime with the cgroupfs
        # driver then makes a cgroup of just this name.
        ("containerd", rf"{_ANY}([^/]+:)?cri-containerd[-:]{_ID}(\.scope)?"),
        # nerdctl pkg/cmd/container/run_cgroup_linux.go: SLICE:nerdctl:ID, or /NAMESPACE/ID.
        ("nerdctl", rf"{_ANY}nerdctl-{_ID}\.scope"),
        ("nerdctl", rf"default/{_ID}"),
        # lxc src/lxc/cgroups/cgfsng.c: lxc.payload.NAME since 4.0, lxc/NAME before.
        ("lxc", rf"{_ANY}lxc\.payload\.{_NAME}"),
        ("lxc", rf"lxc(\.payload)?/{_NAME}"),
        # systemd src/machine/machine-dbus.c: machine-NAME.scope; those of libvirt are qemu and lxc.
        ("systemd-nspawn", rf"{_ANY}machine-(?!qemu\\x2d|lxc\\x2d){_NAME}\.scope"),
        ("systemd-nspawn", rf"{_ANY}systemd-nspawn@{_NAME}\.service"),
        # --cgroup-parent of Docker, and Kubernetes with the cgroupfs driver: PARENT/ID.
        (None, rf"{_ANY}{_ID}"),
    )
)

# kubernetes pkg/kubelet/cm/pod_container_manager_linux.go, and cgroup_manager_linux.go for the "_"
# that stands for "-" in the names of slices. Static pods have a hash for a UID.
_POD = re.compile(
    r"(?:^|-)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:$|:)"
)
_UNIT = re.compile(r".+\.(?:service|scope)")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # systemd.unit(5), string escaping


def containers(path: str) -> list[Container]:
    """Return the containers that a cgroup's path names, the outermost first.

    Each has the fields that the path tells: ``runtime``, ``id``, ``pod_uid``; ``name`` if the
    runtime names the cgroup by it. The last one has the innermost ``unit`` inside it.
    """
    return _read(path)[0]


def describe(path: str) -> Container | None:
    """Return what a cgroup's path names: its innermost container, or else its systemd unit.

    None if it names neither.
    """
    found, unit = _read(path)
    return found[-1] if found else Container(unit=unit) if unit else None


def _read(path: str) -> tuple[list[Container], str | None]:
    found: list[Container] = []
    above, pod_uid, unit = "", None, None
    for part in path.split("/"):
        if pod := _POD.search(part):
            pod_uid = pod[1].replace("_", "-")
        container = _container(f"{above}/{part}")
        if container is not None:
            found.append(container._replace(pod_uid=pod_uid))
            pod_uid = unit = None
        elif _UNIT.fullmatch(part):
            unit = part
        above = part
    if found and unit:
        found[-1] = found[-1]._replace(unit=unit)
    return found, unit


def _container(place: str) -> Container | None:
    for runtime, pattern in _RULES:
        if match := pattern.fullmatch(place):
            groups = match.groupdict()
            name = groups.get("name")
            shown = _ESCAPED.sub(lambda each: chr(int(each[1], 16)), name) if name else None
            return Container(runtime, groups.get("id"), shown)
    return None
