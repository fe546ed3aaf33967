"""What is known of OpenSSL."""

from typing import TYPE_CHECKING

from sslsniff.libraries.openssl.plan import OPENSSL
from sslsniff.matching.library import Library, without_symbols

if TYPE_CHECKING:
    from sslsniff.core.library_failure import LibraryFailure
    from sslsniff.elf.elf_file import Elf
    from sslsniff.matching.probe_set import KeyLog

FAMILY_TEXT = b"ssl/ssl_lib.c"
"""In each library of OpenSSL's family: their errors contain the name of a source file, and all
begin with the same text, which is searched once."""


def key_log(elf: "Elf") -> "KeyLog":
    """Return where a library of this family hands over its secrets; raises ``UnfitError``.

    Raises ``ElfError`` if the file is damaged.
    """
    from sslsniff.matching.key_log.of_c import key_log_of_c  # only to analyse a file

    return key_log_of_c(elf, copied_by="SSL_get_client_random")


def _failure(error: int, verified: int | None) -> "LibraryFailure":
    from sslsniff.libraries.openssl.failures import failure  # only if one is seen

    return failure(error, verified)


LIBRARY = Library(
    id="openssl",
    name="OpenSSL",
    plan=OPENSSL,
    unprobed=without_symbols(
        "openssl",
        "OpenSSL",
        (FAMILY_TEXT, b"ssl/ssl_lib.c\0", b"ssl/ssl_cert.c\0"),
        version=OPENSSL.version,
    ),
    key_log=key_log,
    failure=_failure,
)
