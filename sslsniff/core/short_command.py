"""Names a program by the beginning of its command line."""

from collections.abc import Sequence
from pathlib import PurePath

_FLAGS = frozenset(("-m", "-y", "-u", "--yes", "--"))
"""Options of interpreters and launchers that have no value, or whose value is the program's name.
That of ``-c`` and ``-e`` is the program itself, which may have secrets."""
_VERBS = frozenset(("run", "exec", "x", "dlx", "tool", "start"))
"""Words of launchers before the program: ``uv run server.py``."""


def short_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return the program's file name, and that of the script or package that it runs.

    They end before the first option of another kind, whose value may be a secret.
    """
    shown = [PurePath(words[0]).name] if words else []
    for word in words[1:]:
        if word in _FLAGS:
            continue
        if word.startswith("-"):
            break
        shown.append(PurePath(word).name or word)
        if word not in _VERBS:
            break
    return tuple(shown)
