"""The TLS libraries that are probed: a folder here, and a line in each table below."""

from typing import TYPE_CHECKING

from sslsniff.libraries.boringssl import library as boringssl
from sslsniff.libraries.boringssl.plan import AWS_LC, BORINGSSL
from sslsniff.libraries.gnutls import library as gnutls
from sslsniff.libraries.go import library as go
from sslsniff.libraries.libressl import library as libressl
from sslsniff.libraries.mbedtls import library as mbedtls
from sslsniff.libraries.nss import library as nss
from sslsniff.libraries.openssl import library as openssl
from sslsniff.libraries.openssl.plan import OPENSSL_WITHOUT_SYMBOLS
from sslsniff.libraries.rustls import library as rustls
from sslsniff.libraries.rustls.record_layout import RustlsLayout
from sslsniff.libraries.s2n import library as s2n
from sslsniff.libraries.unprobed import UNPROBED
from sslsniff.libraries.wolfssl import library as wolfssl
from sslsniff.matching.library import Library, Search, UnprobedLibrary
from sslsniff.matching.object_layout import CheckedLayout
from sslsniff.matching.rows import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from sslsniff.core.library_failure import LibraryFailure

FAMILY = (boringssl.FORK, boringssl.LIBRARY, libressl.LIBRARY, openssl.LIBRARY)
"""OpenSSL and its forks: a file has one of them at most."""

LIBRARIES: tuple[Library, ...] = (
    *FAMILY,
    gnutls.LIBRARY,
    nss.LIBRARY,
    wolfssl.LIBRARY,
    mbedtls.LIBRARY,
    s2n.LIBRARY,
    go.LIBRARY,
    rustls.LIBRARY,
)

PLANS: tuple[Plan, ...] = tuple(each.plan for each in LIBRARIES if each.plan is not None)
"""A file has those whose ``symbols`` it defines; of those with the same symbols the first."""

SEARCHES: dict[str, Search] = {
    each.id: each.search for each in LIBRARIES if each.search is not None
}
"""A library's name for programs -> how it is found without a plan."""

FAILURES: "dict[str, Callable[[int, int | None], LibraryFailure]]" = {
    each.id: each.failure for each in LIBRARIES if each.failure is not None
}
"""A library's name for programs -> what says what its errors mean."""

CHECKED_LAYOUTS: tuple[type[CheckedLayout], ...] = (RustlsLayout,)
"""Those of the libraries that have one."""

WITHOUT_SYMBOLS: dict[str, Plan] = {
    each.library: each for each in (BORINGSSL, AWS_LC, OPENSSL_WITHOUT_SYMBOLS)
}
"""The libraries whose functions are found in files without symbols, too."""

FAMILY_UNPROBED: tuple[UnprobedLibrary, ...] = tuple(
    each.unprobed for each in FAMILY if each.unprobed is not None
)
"""How OpenSSL and its forks are recognised in files without symbols."""

OTHER_UNPROBED: tuple[UnprobedLibrary, ...] = (
    *(each.unprobed for each in LIBRARIES if each not in FAMILY and each.unprobed is not None),
    *UNPROBED,
)
"""Libraries that are never probed, and those that are probed by symbols, in files without."""

NAMES = {each.library: each.name for each in OTHER_UNPROBED} | {
    each.id: each.name for each in LIBRARIES
}
"""A library's name for programs -> its name for people."""

FOUND_BY = {each.id: each.found_by for each in LIBRARIES}
"""A library's name for programs -> by what its functions are found."""
