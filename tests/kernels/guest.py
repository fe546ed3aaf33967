"""Other kernels, each booted in QEMU without KVM on this machine's own files, read-only.

The guest needs no disk image: a small initramfs loads 9p and mounts the host's root. What is
written there goes to memory, but for one folder for results.
"""

import contextlib
import lzma
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.workload import debian

_BUSYBOX = Path("/bin/busybox")
_MODULES = ("virtio_pci", "9pnet_virtio", "9p")
_HARDWARE = (
    # Without the fast string instructions: TCG moves a byte a turn where kernels choose them.
    *("-cpu", "max,la57=off,erms=off,fsrm=off"),
    *("-smp", "2", "-m", "2048", "-nodefaults", "-no-user-config", "-no-reboot"),
    *("-display", "none", "-serial", "stdio"),
)
# no_timer_check: on a busy machine, the emulated timer is late for the kernel's check at boot.
_KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr no_timer_check"

_INIT = """#!/bin/busybox sh
for module in /modules/*; do /bin/busybox insmod $module; done
on() {{ /bin/busybox mount "$@" || echo "cannot mount $*"; }}
files() {{ on -t 9p -o trans=virtio,version=9p2000.L,msize=512000,$1 $2 /root/$3; }}
files ro,cache=loose root
for folder in tmp run root var/cache var/tmp; do on -t tmpfs tmpfs /root/$folder; done
on -t proc proc /root/proc
on -t sysfs sysfs /root/sys
on -t tracefs tracefs /root/sys/kernel/tracing
on -t cgroup2 cgroup2 /root/sys/fs/cgroup
on -t debugfs debugfs /root/sys/kernel/debug
on -t devtmpfs devtmpfs /root/dev
/bin/busybox mkdir -p /root/dev/pts /root/dev/shm /root/{project}
on -t devpts devpts /root/dev/pts
on -t tmpfs tmpfs /root/dev/shm
files ro,cache=loose project {project}
files rw results mnt
exec /bin/busybox switch_root /root /bin/sh /mnt/script
"""

_SCRIPT = """
/bin/busybox ip link set lo up
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cut -d' ' -f1 /proc/uptime > /mnt/boot_s
cd {project}
sh -c {command} > /mnt/output 2>&1
echo $? > /mnt/code
dmesg > /mnt/dmesg
/bin/busybox reboot -f
"""


class Kernel(NamedTuple):
    """A Debian kernel, unpacked into ``folder``. ``release`` is as ``uname -r`` has it."""

    release: str
    folder: Path

    @property
    def image(self) -> Path:
        [found] = self.folder.glob("**/vmlinuz*")
        return found

    @property
    def modules(self) -> Path:
        [found] = self.folder.glob(f"**/lib/modules/{self.release}")
        return found


class Run(NamedTuple):
    """What came of a guest. ``code`` is None where its command did not come to an end."""

    code: int | None
    output: str
    dmesg: str
    boot_s: float
    total_s: float


def fetch(suite: str) -> Kernel:
    """Return the kernel of a Debian suite.

    Raises ``OSError`` or ``subprocess.SubprocessError`` where it cannot be had.
    """
    [image] = debian.needs(suite, "linux-image-amd64", r"linux-image-\d.*")
    kernel = Kernel(image.removeprefix("linux-image-"), debian.CACHE / "kernels" / image)
    if not (kernel.folder / "complete").exists():
        parts = debian.needs(suite, image, r"linux-(?:binary|modules)-.*")  # since 7.0
        debian.unpack(suite, [image, *parts], kernel.folder)
        subprocess.run(
            ["depmod", "-b", kernel.modules.parents[2], kernel.release],
            check=True,
            capture_output=True,
        )
        (kernel.folder / "complete").touch()
    return kernel


def fetch_headers(suite: str, kernel: Kernel) -> Path:
    """Return a folder with a kernel's headers, as bcc wants them."""
    merged = kernel.folder / "headers"
    return (
        merged if merged.exists() else debian.unpack_headers(suite, kernel.release, kernel.folder)
    )


def run(
    kernel: Kernel, command: str, results: Path, patience_s: float, *, threads: str = "single"
) -> Run:
    """Boot a kernel and run a shell's ``command`` there, in the current folder.

    ``results`` is emptied first; it is the guest's /mnt, the one place that outlives it. After
    ``patience_s`` the guest is switched off. ``threads``: of the emulator; ``multi`` is faster, and
    kernels end in "Oops: int3" where they switch tracepoints under load (docs/kernels.md).
    """
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    project = Path.cwd()
    script = _SCRIPT.format(project=shlex.quote(str(project)), command=shlex.quote(command))
    (results / "script").write_text(script)
    share = "local,security_model=none,multidevs=remap"
    qemu: list[str | Path] = [
        *("nice", "-n19", "qemu-system-x86_64", *_HARDWARE),
        *("-accel", f"tcg,thread={threads}"),
        *("-kernel", kernel.image),
        *("-initrd", _make_initramfs(kernel, project, results), "-append", _KERNEL_OPTIONS),
        *("-virtfs", f"{share},path=/,mount_tag=root,readonly=on"),
        *("-virtfs", f"{share},path={project},mount_tag=project,readonly=on"),
        *("-virtfs", f"{share},path={results},mount_tag=results"),
    ]
    start = time.monotonic()
    with (results / "console").open("wb") as console, contextlib.suppress(TimeoutError):
        _run(qemu, console.fileno(), patience_s)
    code = _text(results / "code")
    return Run(
        code=int(code) if code else None,
        output=_text(results / "output"),
        dmesg=_text(results / "dmesg"),
        boot_s=float(_text(results / "boot_s") or "nan"),
        total_s=time.monotonic() - start,
    )


def _run(command: list[str | Path], console: int, patience_s: float) -> None:
    null = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=null, stdout=console, stderr=console) as process:
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            process.kill()


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


def _make_initramfs(kernel: Kernel, project: Path, results: Path) -> Path:
    folder, archive = results / "initramfs.d", results / "initramfs"
    for name in ("bin", "modules", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "init").write_text(_INIT.format(project=shlex.quote(str(project))))
    (folder / "init").chmod(0o755)
    shutil.copy(_BUSYBOX, folder / "bin")
    for number, module in enumerate(_modules_in_order(kernel)):
        data = module.read_bytes()
        if module.suffix == ".xz":
            data = lzma.decompress(data)
        name = f"{number:02}-{module.name.removesuffix('.xz')}"
        (folder / "modules" / name).write_bytes(data)
    names = "\n".join(str(each.relative_to(folder)) for each in sorted(folder.rglob("*")))
    pack: list[str | Path] = [_BUSYBOX, "cpio", "-o", "-H", "newc", "-F", archive]
    subprocess.run(pack, cwd=folder, input=names, text=True, capture_output=True, check=True)
    return archive


def _modules_in_order(kernel: Kernel) -> Iterator[Path]:
    """Yield the files of the modules that the guest starts with, each after those it needs."""
    lines = (kernel.modules / "modules.dep").read_text().splitlines()
    needs = dict(line.split(":") for line in lines)
    paths = {re.sub(r"\.ko.*", "", Path(path).name): path for path in needs}
    wanted: list[str] = []
    for name in _MODULES:
        if name in paths:  # else it is built in
            wanted += [*reversed(needs[paths[name]].split()), paths[name]]
    return (kernel.modules / path for path in dict.fromkeys(wanted))
