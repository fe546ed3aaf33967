"""Takes over open files of another process of sslsniff; variables have their numbers.

They are no options: people have no use for them. Service managers do so, too (sd_listen_fds(3)).
"""

import os
from collections.abc import Mapping

from sslsniff.core.errors import OutputError

LINES_TO = "SSLSNIFF_LINES_TO"
"""The queue of lines of the screen, which reads them."""
STATUS_TO = "SSLSNIFF_STATUS_TO"
"""The pipe of the agent, which reads how the capture goes."""

_inherited: dict[str, int] = {}


def environment_with(name: str, fd: int) -> Mapping[str, str]:
    """Return the environment of a process of sslsniff that inherits the file ``fd`` as ``name``."""
    return {**os.environ, name: str(fd)}


def take_inherited() -> None:
    """Take over what was handed to this process; whatever it starts knows nothing of it.

    Raises ``OutputError``.
    """
    for name in (LINES_TO, STATUS_TO):
        number = os.environ.pop(name, None)
        if number is None:
            continue
        try:
            fd = int(number)
            os.set_inheritable(fd, False)
        except (ValueError, OverflowError, OSError) as error:
            raise OutputError(
                f"{name} in the environment is no open file ({error})",
                "unset it: sslsniff hands a file to itself by it",
            ) from None
        _inherited[name] = fd


def inherited_fd(name: str) -> int | None:
    """Return the descriptor that was taken over as ``name``; None: there is none."""
    return _inherited.get(name)
