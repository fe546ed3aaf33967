"""Decides how a capture sees calls: by probes in the kernel, or by a preloaded library."""

from sslsniff.capture.options import ENGINE, LOADER
from sslsniff.cli.options.watch_options import needs_probes
from sslsniff.cli.printing import note
from sslsniff.core.errors import LoaderError, PrivilegeError
from sslsniff.kernel import privileges
from sslsniff.settings.asked import Asked


def preloads(asked: Asked) -> bool:
    """Say whether to preload a library into the command; else the rights for probes are there.

    Raises ``PrivilegeError`` where neither can be done, and where sudo's variables are no ids.
    """
    privileges.caller()
    if asked[ENGINE] == "preload":
        return True
    can_preload = asked[ENGINE] == "auto" and asked.command and not needs_probes(asked)
    if can_preload and (privileges.missing() or not _has_loader(asked)):
        return True
    try:
        privileges.require()
    except PrivilegeError as error:
        raise PrivilegeError(error.fact, _remedy(asked, error.remedy)) from None
    return False


def _has_loader(asked: Asked) -> bool:
    """Say whether a library is there that loads BPF programs; if not, note what is used instead."""
    from sslsniff.kernel.loaders.loading import require_library

    try:
        require_library(asked[LOADER])
    except LoaderError as error:
        note(f"{error}; until then a library is preloaded into the command (docs/preload.md)")
        return False
    return True


def _remedy(asked: Asked, by_rights: str) -> str:
    if asked.command and (others := needs_probes(asked)):
        return f"{by_rights}; without rights, leave out {others[0]}"
    return f"{by_rights}; sslsniff -- COMMAND starts a program and needs no rights"
