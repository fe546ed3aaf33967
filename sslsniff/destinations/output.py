"""What an output is: its options, its checks, and how it opens. Each has one declaration."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sslsniff.core.errors import OutputError
from sslsniff.destinations.missing_packages import how_to_install
from sslsniff.settings.asked import Asked, Rule
from sslsniff.settings.option import Option

if TYPE_CHECKING:
    from sslsniff.core.capture_figures import RunningCapture
    from sslsniff.core.model import Exchange
    from sslsniff.core.sink import Sink


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What an output gets when it opens, beside what was asked for.

    ``closing`` closes its files. ``note``: called with lines for the user. ``source``: what is
    shown, for people. ``is_live``: it happens now, so it cannot wait. ``expression``: the filter,
    as it was given. ``calls_of``: returns the calls that served an exchange; None: calls are not
    asked for. ``capture``: None if a file is read.
    """

    closing: contextlib.ExitStack
    note: Callable[[str], None]
    source: str
    is_live: bool
    expression: str | None = None
    calls_of: "Callable[[Exchange], Sequence[Any] | None] | None" = None
    capture: "RunningCapture | None" = None


def _nothing(_asked: Asked) -> None:
    pass


def _never(_asked: Asked) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Output:
    """An output that is written in the place of lines.

    ``option``: it is wanted if this has a value. ``options``: that, and those that go with it.
    ``rules``: what contradicts what among them.
    ``names_file``: the value of ``option`` is the name of a file, which may be standard output.
    ``endings``: how the names of its files usually end.
    ``leaves_machine``: whether plaintext goes to other machines; secrets are then blanked.
    ``check``: raises the error that ``open`` would raise, before anything is written.
    ``open``: returns the sink. Raises ``SslsniffError``.
    ``imports``: modules that it needs, which can be imported while a capture starts.
    """

    option: Option[str | None]
    options: tuple[Option[Any], ...]
    open: "Callable[[Asked, Opening], Sink]"
    rules: tuple[Rule, ...] = ()
    names_file: bool = False
    endings: tuple[str, ...] = ()
    leaves_machine: Callable[[Asked], bool] = _never
    check: Callable[[Asked], None] = _nothing
    imports: tuple[str, ...] = ()

    def is_wanted(self, asked: Asked) -> bool:
        """Say whether it is asked for."""
        return bool(asked[self.option])


@contextlib.contextmanager
def needed_extra(option: str, extra: str, package: str) -> Iterator[None]:
    """Raise ``OutputError`` where an optional package is missing that is imported in the block."""
    try:
        yield
    except ImportError:
        raise OutputError(f"{option} needs the package {package}", how_to_install(extra)) from None
