"""What is known of BoringSSL, and of AWS-LC, which comes from it."""

from typing import TYPE_CHECKING

from sslsniff.libraries.boringssl.plan import AWS_LC, BORINGSSL
from sslsniff.libraries.openssl.library import FAMILY_TEXT, key_log
from sslsniff.matching.library import Library, without_symbols

if TYPE_CHECKING:
    from sslsniff.core.library_failure import LibraryFailure

_TEXTS = (FAMILY_TEXT, b"ssl/ssl_lib.cc\0", b"ssl/ssl_cert.cc\0")
_FORK = b"AWS-LC"


def _failure(error: int, verified: int | None) -> "LibraryFailure":
    from sslsniff.libraries.boringssl.failures import failure  # only if one is seen

    return failure(error, verified)


LIBRARY = Library(
    id="boringssl",
    name="BoringSSL",
    plan=BORINGSSL,
    unprobed=without_symbols("boringssl", "BoringSSL", _TEXTS, unless=_FORK),
    key_log=key_log,
    failure=_failure,
)
FORK = Library(
    id="aws-lc",
    name="AWS-LC",
    unprobed=without_symbols("aws-lc", "AWS-LC", (*_TEXTS, _FORK), version=AWS_LC.version),
    key_log=key_log,
    failure=_failure,
)
"""AWS-LC in files without symbols; with symbols it counts as BoringSSL."""
