"""Decides how a capture sees calls: by probes in the kernel, or by a preloaded library."""

from sslsniff.cli.options.watch_options import WatchOptions
from sslsniff.cli.printing import note
from sslsniff.core.errors import LoaderError, PrivilegeError
from sslsniff.kernel import privileges


def preloads(options: WatchOptions) -> bool:
    """Say whether to preload a library into the command; else the rights for probes are there.

    Raises ``PrivilegeError`` where neither can be done, and where sudo's variables are no ids.
    """
    privileges.caller()
    if options.engine == "preload":
        return True
    can_preload = options.engine == "auto" and options.command and not options.needs_probes
    if can_preload and (privileges.missing() or not _has_loader(options)):
        return True
    try:
        privileges.require()
    except PrivilegeError as error:
        raise PrivilegeError(error.fact, _remedy(options, error.remedy)) from None
    return False


def _has_loader(options: WatchOptions) -> bool:
    """Say whether a library is there that loads BPF programs; if not, note what is used instead."""
    from sslsniff.kernel.loaders.loading import require_library

    try:
        require_library(options.loader)
    except LoaderError as error:
        note(f"{error}; until then a library is preloaded into the command (docs/preload.md)")
        return False
    return True


def _remedy(options: WatchOptions, by_rights: str) -> str:
    if options.command and options.needs_probes:
        return f"{by_rights}; without rights, leave out {options.needs_probes[0]}"
    return f"{by_rights}; sslsniff -- COMMAND starts a program and needs no rights"
