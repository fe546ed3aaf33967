"""Options: what to watch, and how calls are seen."""

from sslsniff.settings import values
from sslsniff.settings.option import Group, choice, flag, off, repeated, switch, value

ALL = flag(
    "--all",
    "every process of this host",
    group=Group.WHAT,
    setting=("watch", "all"),
    is_usual=True,
)
PID = repeated(
    "--pid",
    values.process_id,
    "PID",
    "a running process with its children",
    short="-p",
    group=Group.WHAT,
    setting=("watch", "pids"),
    is_number=True,
    is_usual=True,
    needs_probes=True,
)
CHILDREN = off(
    "--no-children",
    "with --pid or COMMAND: only that process itself",
    group=Group.WHAT,
    needs_probes=True,
)
"""Whether children of processes are watched, too."""
COMM = repeated(
    "--comm",
    values.name,
    "NAME",
    "processes of this name, or running a program of it",
    group=Group.WHAT,
    setting=("watch", "names"),
    is_usual=True,
    needs_probes=True,
)
UID = repeated(
    "--uid",
    values.user_id,
    "UID",
    "processes of this user id",
    group=Group.WHAT,
    setting=("watch", "uids"),
    is_number=True,
    needs_probes=True,
)
CONTAINER = repeated(
    "--container",
    values.name,
    "NAME|ID",
    "processes of this container, now and later: its name, or 4 or more digits of its id",
    group=Group.WHAT,
    setting=("watch", "containers"),
    is_usual=True,
    needs_probes=True,
)
UNIT = repeated(
    "--unit",
    values.name,
    "UNIT",
    "processes of this systemd unit; nginx is nginx.service",
    group=Group.WHAT,
    setting=("watch", "units"),
    needs_probes=True,
)
CGROUP = repeated(
    "--cgroup",
    values.name,
    "PATH",
    "processes in this cgroup v2, and in those below it",
    group=Group.WHAT,
    setting=("watch", "cgroups"),
    needs_probes=True,
)
LIB = repeated(
    "--lib",
    values.name,
    "LIBRARY",
    "only this TLS library: a name such as libssl.so.3, or a path",
    group=Group.WHAT,
    setting=("watch", "libraries"),
    needs_probes=True,
)
SAMPLE = value(
    "--sample",
    values.share,
    "SHARE",
    "only a share of connections such as 1/10, each of them whole;"
    " auto: of more traffic than can be decoded, as many as can",
    default=1.0,
    group=Group.WHAT,
    setting=("watch", "sample"),
)
"""A share, 0 to 1; None: of more traffic than can be decoded, as much as can."""
MOST_CPU = value(
    "--most-cpu",
    values.processor_share,
    "SHARE",
    "use at most this share of one processor, such as 0.2: of more traffic, as many"
    " connections as that allows",
    group=Group.WHAT,
    setting=("limits", "cpu"),
    is_number=True,
)

STDIO = flag(
    "--stdio",
    "with COMMAND: also JSON-RPC, as of MCP, that its processes speak by standard input and output",
    group=Group.WHAT,
    is_usual=True,
    needs_probes=True,
)

SELECTING = (PID, COMM, UID, LIB, CONTAINER, CGROUP, UNIT)
"""Options that say which processes to watch."""
WHAT = (ALL, PID, CHILDREN, COMM, UID, CONTAINER, UNIT, CGROUP, LIB, STDIO, SAMPLE, MOST_CPU)

ENGINE = choice(
    "--engine",
    ("auto", "probes", "preload"),
    "HOW",
    "see calls by probes in the kernel, which needs rights, or with COMMAND by a library"
    " that is preloaded into it (docs/preload.md); auto (default): by probes where there are"
    " the rights",
    default="auto",
    group=Group.ENGINE,
)
LOADER = choice(
    "--loader",
    ("auto", "co-re", "bcc"),
    "HOW",
    "load BPF programs by co-re or bcc (default: co-re where there is BTF)",
    default="auto",
    group=Group.ENGINE,
    needs_probes=True,
)
RETURNS = choice(
    "--returns",
    ("instructions", "trampoline"),
    "HOW",
    "see returns at instructions (default), by trampoline: faster for some programs, but"
    " kills each that maps a watched library and switches coroutines inside its calls",
    default="instructions",
    group=Group.ENGINE,
    needs_probes=True,
)
HOLD = switch(
    "--hold",
    "stop a process where it loads a library until that is probed, 5 s at most: the shortest is"
    " seen, too; uses ptrace, as debuggers do (default: only with COMMAND; docs/holding.md)",
    group=Group.WHAT,
    is_usual=True,
    needs_probes=True,
)
RING_SIZE = value(
    "--ring-size",
    values.ring_size,
    "SIZE",
    "room for what was not read yet, a power of two from 4M (default: 32M)",
    default=2 * values.MOST_CALL_BYTES,
    group=Group.ENGINE,
    setting=("limits", "ring"),
)
SPILL = value(
    "--spill",
    values.spill_size,
    "SIZE",
    "more such room in a temporary file, from 4M (default: none)",
    default=0,
    group=Group.ENGINE,
    needs_probes=True,
)
MAX_CALL_BYTES = value(
    "--max-call-bytes",
    values.call_limit,
    "SIZE",
    "most plaintext kept of one call (default and most: 16M)",
    default=values.MOST_CALL_BYTES,
    group=Group.ENGINE,
)

DEBUG = flag(
    "--debug",
    "say on standard error which files are looked at, which are probed or not, and why",
    group=Group.ENGINE,
    setting=("lines", "debug"),
)

HOW = (ENGINE, LOADER, RETURNS, HOLD, RING_SIZE, SPILL, MAX_CALL_BYTES, DEBUG)
