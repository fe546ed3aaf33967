"""What is known of rustls."""

from typing import TYPE_CHECKING

from sslsniff.core.library_failure import received
from sslsniff.libraries.rustls.versions import MENTION
from sslsniff.matching.library import Found, Library, Search

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf
    from sslsniff.matching.probe_set import KeyLog, Probe, ProbedLibrary, ReturnStyle


def _key_log(elf: "Elf") -> "KeyLog":
    from sslsniff.libraries.rustls.key_log import rustls_key_log  # only to analyse a file

    return rustls_key_log(elf)


def _fit(elf: "Elf", _: "ReturnStyle") -> Found:
    from sslsniff.libraries.rustls.rustls_fitting import fit_rustls

    return fit_rustls(elf)


def _programs() -> set[str | None]:
    from sslsniff.libraries.rustls.plan import METHODS

    return {each for method in METHODS.values() for each in (method.enter, method.leave)}


def _remake(version: str, tls_version: int | None, probes: "list[Probe]") -> "ProbedLibrary":
    from sslsniff.libraries.rustls.rustls_fitting import make_library

    major, minor = map(int, version.split("."))
    return make_library((major, minor), tls_version, probes)


LIBRARY = Library(
    id="rustls",
    name="rustls",
    failure=received,
    search=Search(_fit, _programs, text=MENTION, remake=_remake),
    found_by="methods of ciphers",
    key_log=_key_log,
)
