#!/bin/sh
# A limit of the size of files (ulimit -f) holds for memory, too, if that is from memfd_create.
#
# Version: Linux 6.18 (inode_newsize_ok in fs/attr.c); Python 3 of the machine, no package.
# Behaviour: the file of memfd_create is in no file system that anybody sees. A process under a limit of
# 1 MB may allocate 64 MB by mmap. But ftruncate of a memfd to 2 MB sends it SIGXFSZ, which ends it
# unless it handles or ignores that, and fails with EFBIG. So a library that shares memory with another
# process ends a program that was started under ulimit -f, where one that only allocates does not.
# Output seen: mmap of 64 MB: done
#              ftruncate of a memfd, SIGXFSZ ignored: File too large
#              ftruncate of a memfd: ended by SIGXFSZ
set -eu
python3 - <<'PYTHON'
import errno
import mmap
import os
import resource
import signal

LIMIT, BEYOND = 1 << 20, 2 << 20
resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
mmap.mmap(-1, 64 << 20).close()
print("mmap of 64 MB: done")
memory = os.memfd_create("memory")
os.ftruncate(memory, LIMIT)
try:
    os.ftruncate(memory, BEYOND)  # Python ignores SIGXFSZ
except OSError as error:
    assert error.errno == errno.EFBIG, error
    print(f"ftruncate of a memfd, SIGXFSZ ignored: {error.strerror}", flush=True)
else:
    raise SystemExit("the limit does not hold for a memfd")
child = os.fork()
if not child:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.ftruncate(memory, BEYOND)
    os._exit(0)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert ended == -signal.SIGXFSZ, ended
print("ftruncate of a memfd: ended by SIGXFSZ")
PYTHON
