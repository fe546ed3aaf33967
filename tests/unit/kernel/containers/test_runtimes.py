"""What the paths of cgroups say: as runtimes and systemd name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.process import Container
from sslsniff.kernel.containers import cgroup_tree
from sslsniff.kernel.containers.runtimes import containers, describe

ID = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
OTHER = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
POD = "0f2a6a4e-9f4c-4ba1-8d5a-6b1c2d3e4f50"
SLICE = f"kubepods-burstable-pod{POD.replace('-', '_')}.slice"
PODS = f"/kubepods.slice/kubepods-burstable.slice/{SLICE}"
BUILD = "x3f1yqb8k2t7w5n0z9r6m4c1d"

PATHS = {
    # Docker: systemd driver, cgroupfs driver, rootless, with --cgroup-parent
    f"/system.slice/docker-{ID}.scope": Container("docker", ID),
    f"/docker/{ID}": Container("docker", ID),
    f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope": Container(
        "docker", ID
    ),
    f"/mine/{ID}": Container(None, ID),
    f"/{ID}": Container(None, ID),
    f"/system.slice/docker-{ID}.scope/init": Container("docker", ID),
    # systemd in a container
    f"/docker/{ID}/system.slice/nginx.service": Container("docker", ID, unit="nginx.service"),
    # BuildKit in Docker, and its own daemon
    f"/system.slice/docker-{BUILD}.scope": Container("buildkit", BUILD),
    f"/docker/buildkit/{BUILD}": Container("buildkit", BUILD),
    # Podman: root, rootless, cgroupfs
    f"/machine.slice/libpod-{ID}.scope/container": Container("podman", ID),
    f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope": Container(
        "podman", ID
    ),
    f"/libpod_parent/libpod-{ID}": Container("podman", ID),
    # their monitors
    f"/machine.slice/libpod-conmon-{ID}.scope": Container(unit=f"libpod-conmon-{ID}.scope"),
    "/libpod_parent/conmon": None,
    f"{PODS}/crio-conmon-{ID}.scope": Container(unit=f"crio-conmon-{ID}.scope"),
    "/lxc.monitor.web": None,
    # Kubernetes: systemd driver, with each runtime
    f"{PODS}/cri-containerd-{ID}.scope": Container("containerd", ID, pod_uid=POD),
    f"{PODS}/crio-{ID}.scope": Container("cri-o", ID, pod_uid=POD),
    f"{PODS}/crio-{ID}.scope/container": Container("cri-o", ID, pod_uid=POD),
    f"{PODS}/docker-{ID}.scope": Container("docker", ID, pod_uid=POD),
    f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope": (
        Container("containerd", ID, pod_uid=POD)
    ),
    # cgroupfs driver; a static pod, whose UID is a hash
    f"/kubepods/besteffort/pod{POD}/{ID}": Container(None, ID, pod_uid=POD),
    f"/kubepods/pod{POD}/{ID}": Container(None, ID, pod_uid=POD),
    f"/kubepods/burstable/pod{'0a' * 16}/{ID}": Container(None, ID, pod_uid="0a" * 16),
    f"/kubepods/burstable/pod{POD}/crio-{ID}": Container("cri-o", ID, pod_uid=POD),
    # containerd with one driver, kubelet with the other
    f"/system.slice/containerd.service/{SLICE}:cri-containerd:{ID}": Container(
        "containerd", ID, pod_uid=POD
    ),
    # kind: Kubernetes in Docker
    f"/docker/{OTHER}/kubelet.slice/kubelet-{SLICE}/cri-containerd-{ID}.scope": Container(
        "containerd", ID, pod_uid=POD
    ),
    # nerdctl
    f"/system.slice/nerdctl-{ID}.scope": Container("nerdctl", ID),
    f"/default/{ID}": Container("nerdctl", ID),
    # LXC, Incus and Proxmox
    "/lxc.payload.web": Container("lxc", None, "web"),
    "/lxc.payload.web/system.slice/ssh.service": Container("lxc", None, "web", unit="ssh.service"),
    "/lxc/101/ns/init.scope": Container("lxc", None, "101", unit="init.scope"),
    # systemd-nspawn, and a virtual machine of libvirt
    r"/machine.slice/machine-debian\x2d12.scope/payload": Container(
        "systemd-nspawn", None, "debian-12"
    ),
    "/machine.slice/systemd-nspawn@web.service/payload/init.scope": Container(
        "systemd-nspawn", None, "web", unit="init.scope"
    ),
    r"/machine.slice/machine-qemu\x2d1\x2dvm.scope": Container(
        unit=r"machine-qemu\x2d1\x2dvm.scope"
    ),
    # systemd
    "/system.slice/nginx.service": Container(unit="nginx.service"),
    "/system.slice/system-getty.slice/getty@tty1.service": Container(unit="getty@tty1.service"),
    "/user.slice/user-1000.slice/session-3.scope": Container(unit="session-3.scope"),
    "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-77.scope": Container(
        unit="app-firefox-77.scope"
    ),
    "/init.scope": Container(unit="init.scope"),
    "/system.slice/docker.service": Container(unit="docker.service"),
    # nothing
    "/": None,
    "": None,
    "/system.slice": None,
    "/../..": None,
    f"/../docker-{ID}.scope": Container("docker", ID),
    f"/docker/{ID[:-1]}": None,
    f"/docker/{ID}0": None,
    f"/docker/{ID.upper()}": None,
    "/docker-.scope": Container(unit="docker-.scope"),
    "/x\\012y/docker": None,
    "/machine.slice/machine-.scope": Container(unit="machine-.scope"),
    f"{'/deep' * 10_000}/docker/{ID}": Container("docker", ID),
}


@pytest.mark.parametrize(("path", "shown"), PATHS.items(), ids=[each[-60:] for each in PATHS])
def test_paths(path: str, shown: Container | None) -> None:
    assert describe(path) == shown


def test_containers_inside_one_another_are_all_known() -> None:
    path = f"/docker/{OTHER}/kubelet.slice/kubelet-{SLICE}/cri-containerd-{ID}.scope/x.service"
    assert containers(path) == [
        Container("docker", OTHER),
        Container("containerd", ID, pod_uid=POD, unit="x.service"),
    ]
    assert containers("/system.slice/nginx.service") == []


PARTS = st.sampled_from(
    [
        "docker",
        "lxc",
        ID,
        f"docker-{ID}.scope",
        SLICE,
        "..",
        "",
        "a.service",
        "lxc.payload.",
        "\\x2",
    ]
)


@pytest.mark.tools
@given(st.lists(PARTS | st.text(max_size=80)).map("/".join))
def test_no_path_raises(path: str) -> None:
    found = containers(path)
    shown = describe(path)
    assert shown == (found[-1] if found else None) or (shown and not found and shown.unit)


@pytest.mark.tools
@given(st.text())
def test_no_text_of_proc_raises(text: str) -> None:
    assert all(isinstance(each, str) for each in cgroup_tree.parse(text))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("0::/system.slice/nginx.service\n", ["/system.slice/nginx.service"]),
        ("0::/\n", ["/"]),
        ("0::/docker/x (deleted)\n", ["/docker/x"]),
        ("0::/a:b:c\n", ["/a:b:c"]),
        (
            "12:pids:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/user.slice\n0::/\n",
            ["/", "/user.slice", "/docker/x"],
        ),
        ("5:devices:/lxc/101\n1:name=systemd:/lxc/101/ns\n", ["/lxc/101/ns", "/lxc/101"]),
        ("", []),
    ],
)
def test_cgroups_of_a_process(text: str, paths: list[str]) -> None:
    assert cgroup_tree.parse(text) == paths
