"""The files that runtimes keep, in the forms that they write, and a tree of cgroups."""

import json
from pathlib import Path
from typing import Any

DOCKER = "d0" * 32
PODMAN = "90" * 32
POD = "a1" * 32
SIDECAR = "a2" * 32
NERDCTL = "e0" * 32
CRIO = "c0" * 32
STOPPED = "d0ff" * 16
ROOTLESS = "70" * 32
UID = "0f2a6a4e_9f4c_4ba1_8d5a_6b1c2d3e4f50"
SLICE = f"kubepods.slice/kubepods-pod{UID}.slice"
CGROUPS = (
    f"system.slice/docker-{DOCKER}.scope/inner",
    f"machine.slice/libpod-{PODMAN}.scope",
    f"machine.slice/libpod-conmon-{PODMAN}.scope",
    f"{SLICE}/cri-containerd-{POD}.scope",
    f"{SLICE}/cri-containerd-{SIDECAR}.scope",
    f"{SLICE}/crio-{CRIO}.scope",
    f"system.slice/nerdctl-{NERDCTL}.scope",
    f"user.slice/libpod-{ROOTLESS}.scope",
    "lxc.payload.old",
    "system.slice/nginx.service",
)


def write(root: Path, path: str, content: Any) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def cri_annotations(name: str) -> dict[str, str]:
    return {
        "io.kubernetes.cri.container-name": name,
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-name": "shop-1",
        "io.kubernetes.cri.sandbox-namespace": "prod",
    }


def make(root: Path) -> Path:
    """Make files of all runtimes, and cgroups, below ``root``; return where cgroup v2 is."""
    docker = "var/lib/docker/containers"
    write(root, f"{docker}/{DOCKER}/config.v2.json", {"Name": "/web", "Config": {"Labels": {}}})
    write(root, f"{docker}/{STOPPED}/config.v2.json", {"Name": "/old-one", "Config": {}})
    storage = "containers/storage/overlay-containers"
    podman = [
        {"id": PODMAN, "names": ["db"], "image": "1"},
        {"id": CRIO, "names": [f"k8s_proxy_edge-2_prod_{UID}_0"]},
    ]
    write(root, f"var/lib/{storage}/containers.json", podman)
    mine = [{"id": ROOTLESS, "names": ["mine"]}]
    write(root, f"home/user/.local/share/{storage}/containers.json", mine)
    crio = {
        "io.kubernetes.container.name": "proxy",
        "io.kubernetes.pod.name": "edge-2",
        "io.kubernetes.pod.namespace": "prod",
    }
    write(root, f"run/{storage}/{CRIO}/userdata/config.json", {"annotations": crio})
    write(root, f"run/{storage}/{PODMAN}/userdata/config.json", {"annotations": {"x": "y"}})
    tasks = "run/containerd/io.containerd.runtime.v2.task"
    bundle = {"ociVersion": "1.1.0", "annotations": cri_annotations("app")}
    write(root, f"{tasks}/k8s.io/{POD}/config.json", bundle)
    bundle = {"annotations": {"nerdctl/name": "cache", "nerdctl/namespace": "default"}}
    write(root, f"{tasks}/default/{NERDCTL}/config.json", bundle)
    logs = root / "var/log/containers"
    logs.mkdir(parents=True)
    (logs / f"shop-1_prod_side-car-{SIDECAR}.log").symlink_to("/var/log/pods/absent/0.log")
    mount = root / "sys/fs/cgroup"
    for each in CGROUPS:
        (mount / each).mkdir(parents=True)
    line = f"30 23 0:26 / {mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{line}")
    return mount
