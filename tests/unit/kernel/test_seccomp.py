"""What a worker may ask of the kernel, and what not."""

import subprocess
import sys

ALONE = """
import os, resource, signal, socket, sys
from pathlib import Path
from sslsniff.kernel import privileges
from sslsniff.kernel import seccomp

file = os.open(sys.executable, os.O_RDONLY)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
privileges.drop_all_and_user()
seccomp.allow_only_computing()

# What it needs
assert os.pread(file, 4, 0) == b"\\x7fELF"
assert os.fstat(file).st_size > 1000
assert os.lseek(file, 0, os.SEEK_DATA) == 0
assert len(bytearray(64 << 20)) == 64 << 20
ours.send(b"plan")
assert socket.recv_fds(theirs, 10, 1)[0] == b"plan"
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))

# What it does not
refused = [
    lambda: os.open("/dev/null", os.O_RDONLY),
    lambda: os.open("/proc/self/status", os.O_RDONLY),
    lambda: os.listdir("/"),
    lambda: socket.socket(),
    lambda: os.fork(),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: os.kill(os.getppid(), 0),
    lambda: os.unlink("/nothing"),
    lambda: os.dup(file),
    lambda: os.pipe(),
    lambda: os.memfd_create("x"),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
]
for each in refused:
    try:
        each()
    except PermissionError:
        continue
    os.write(2, b"allowed: %d" % refused.index(each))
    os._exit(1)
os.write(1, b"done")
os._exit(0)
"""


def test_only_what_a_worker_needs_is_allowed() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done", "")
