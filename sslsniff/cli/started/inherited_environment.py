"""Tells which environment was inherited, before Python changed it.

In the C locale Python sets ``LC_CTYPE`` for itself and what it starts (PEP 538). The kernel keeps
the variables as they were (proc(5), /proc/pid/environ).
"""

from collections.abc import Mapping
from pathlib import Path

_CHANGED = "LC_CTYPE"


def as_inherited(
    environment: Mapping[str, str], inherited: Path = Path("/proc/self/environ")
) -> dict[str, str]:
    """Return an environment with the variable that Python may have set as it was before.

    Unchanged where that cannot be read.
    """
    try:
        variables = inherited.read_bytes().split(b"\0")
    except OSError:
        return dict(environment)
    name = f"{_CHANGED}=".encode()
    before = next((each[len(name) :] for each in variables if each.startswith(name)), None)
    restored = {key: value for key, value in environment.items() if key != _CHANGED}
    if before is not None:
        restored[_CHANGED] = before.decode(errors="surrogateescape")
    return restored
