"""Names of containers and pods, from the files that runtimes keep about them; no socket is asked.

A file is looked up by the container's id. Some lie in the folders of users: they are read as files
that anybody may have made.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sslsniff.core.process import Container
from sslsniff.kernel.regular_files import open_regular

_MOST_BYTES = 1 << 20  # parsed, a file that a user made up takes 30 MB at most
_MOST_KNOWN = 4096
_RETRY_S = 0.1
"""Files are searched so often at most for a container that has none: users may have many."""
_HEX_ID = re.compile(r"[0-9a-f]{64}")
_LABELS = {  # the label's name in a container's configuration -> the field
    "io.kubernetes.container.name": "name",  # kubernetes pkg/kubelet/types/labels.go, and CRI-O
    "io.kubernetes.pod.name": "pod",
    "io.kubernetes.pod.namespace": "namespace",
    "io.kubernetes.cri.container-name": "name",  # containerd pkg/cri/annotations
    "io.kubernetes.cri.sandbox-name": "pod",
    "io.kubernetes.cri.sandbox-namespace": "namespace",
    "nerdctl/name": "name",  # nerdctl pkg/labels
}

_Found = Iterator[tuple[str, dict[str, str]]]
"""Ids of containers, with what is known of each: names of fields of ``Container`` -> values."""


def _labels(labels: Any) -> dict[str, str]:
    return {field: str(labels[name]) for name, field in _LABELS.items() if labels.get(name)}


def _docker(path: Path) -> _Found:
    """Read Docker's config.v2.json (moby daemon/container/container.go)."""
    values = _json(path)
    name = str(values["Name"]).lstrip("/")
    yield path.parent.name, {"name": name} | _labels(values["Config"].get("Labels") or {})


def _bundle(path: Path) -> _Found:
    """Read config.json of a container's bundle (OCI runtime specification)."""
    labels = _labels(_json(path).get("annotations") or {})
    if labels:
        folder = path.parent if _HEX_ID.fullmatch(path.parent.name) else path.parents[1]
        yield folder.name, labels


def _storage(path: Path) -> _Found:
    """Read the list of containers that Podman and CRI-O share (containers/storage)."""
    for each in _json(path):
        if each.get("names"):
            yield str(each["id"]), {"name": str(each["names"][0])}


def _kubelet_log(path: Path) -> _Found:
    """Read the name of a link: POD_NAMESPACE_CONTAINER-ID.log (kubelet, legacy.go)."""
    pod, namespace, rest = path.name.removesuffix(".log").split("_")
    name, _, container = rest.rpartition("-")
    yield container, {"name": name, "pod": pod, "namespace": namespace}


class _NameSource(NamedTuple):
    """Files that name containers. ``files`` is a glob with ``{id}`` for the container's id."""

    runtime: str | None
    files: str
    read: Callable[[Path], _Found]


_DOCKER = "containers/{id}/config.v2.json"
_TASKS = "containerd/io.containerd.runtime.v2.task"
_STORAGE = "containers/storage/overlay-containers"
# The first source that knows a field counts.
_SOURCES = (
    _NameSource("docker", f"var/lib/docker/{_DOCKER}", _docker),
    _NameSource("docker", f"var/snap/docker/common/var-lib-docker/{_DOCKER}", _docker),
    _NameSource("docker", f"home/*/.local/share/docker/{_DOCKER}", _docker),
    _NameSource("containerd", f"run/{_TASKS}/k8s.io/{{id}}/config.json", _bundle),
    _NameSource("containerd", f"run/k3s/{_TASKS}/k8s.io/{{id}}/config.json", _bundle),
    _NameSource("nerdctl", f"run/{_TASKS}/default/{{id}}/config.json", _bundle),
    _NameSource("cri-o", f"run/{_STORAGE}/{{id}}/userdata/config.json", _bundle),
    _NameSource(None, "var/log/containers/*-{id}.log", _kubelet_log),
    _NameSource(None, f"var/lib/{_STORAGE}/containers.json", _storage),
    _NameSource("podman", f"home/*/.local/share/{_STORAGE}/containers.json", _storage),
)


def _json(path: Path) -> Any:
    with os.fdopen(open_regular(str(path)), "rb") as file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            raise ValueError
        return json.loads(file.read(_MOST_BYTES))


def _host_roots(root: Path) -> Iterator[Path]:
    """Yield the root folder of process 1, if it has other mounts than this process.

    So in a container that shares the host's processes (``docker run --pid host``) the files of the
    host's runtimes are found, none of which is mounted there. It takes CAP_SYS_PTRACE.
    """
    of_first = root / "proc/1"
    with contextlib.suppress(OSError):
        if (of_first / "ns/mnt").readlink() != (root / "proc/self/ns/mnt").readlink():
            yield of_first / "root"


class ContainerNames:
    """Finds names in the files below ``root``, and remembers what it found of a container.

    Files may come a moment after the container: without one, later calls search again.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._roots = (root, *_host_roots(root))
        self._known: dict[str, dict[str, str]] = {}
        self._searched_s: dict[str, float] = {}
        """When files of a container were last searched that has none."""

    def complete(self, container: Container) -> Container:
        """Return a container with the fields that the files tell and that it lacks."""
        if container.id is None:
            return container
        known = self._known.get(container.id)
        if known is None:
            known = self._search(container.id)
        missing = {field: each for field, each in known.items() if not getattr(container, field)}
        return container._replace(**missing)

    def existing(self) -> Iterator[Container]:
        """Yield the containers that have files, running or not; some of them twice."""
        for source in _SOURCES:
            for container, fields in self._read(source, "*"):
                yield Container(**{"runtime": source.runtime, "id": container} | fields)

    def _search(self, container: str) -> dict[str, str]:
        now_s = time.monotonic()
        if now_s - self._searched_s.get(container, -_RETRY_S) < _RETRY_S:
            return {}
        known = self._find(container)
        if len(self._known) + len(self._searched_s) >= _MOST_KNOWN:
            self._known.clear()
            self._searched_s.clear()
        if known:
            self._known[container] = known
        else:
            self._searched_s[container] = now_s
        return known

    def _find(self, container: str) -> dict[str, str]:
        known: dict[str, str] = {}
        for source in _SOURCES:
            for each, fields in self._read(source, container):
                if each == container:
                    runtime = {"runtime": source.runtime} if source.runtime else {}
                    known = {**runtime, **fields, **known}
        return known

    def _read(self, source: _NameSource, container: str) -> _Found:
        for path in self._files(source.files.format(id=container)):
            try:
                yield from source.read(path)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # half written, gone, or not of this form

    def _files(self, pattern: str) -> Iterator[Path]:
        for root in self._roots:
            with contextlib.suppress(OSError):
                yield from root.glob(pattern)
