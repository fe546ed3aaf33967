"""What to probe in each TLS library: data only. A library is one module here and one line below."""

from sslsniff.probing.plans.gnutls import GNUTLS
from sslsniff.probing.plans.libressl import LIBRESSL
from sslsniff.probing.plans.mbedtls import MBEDTLS
from sslsniff.probing.plans.nss import NSS
from sslsniff.probing.plans.openssl import AWS_LC, BORINGSSL, OPENSSL, OPENSSL_WITHOUT_SYMBOLS
from sslsniff.probing.plans.rows import Alternative, At, Listed, Passing, Plan, PointerTable, Row
from sslsniff.probing.plans.s2n import S2N
from sslsniff.probing.plans.wolfssl import WOLFSSL

PLANS: tuple[Plan, ...] = (BORINGSSL, LIBRESSL, OPENSSL, GNUTLS, NSS, WOLFSSL, MBEDTLS, S2N)
"""A file has those whose ``symbols`` it defines; of those with the same symbols the first."""

WITHOUT_SYMBOLS: dict[str, Plan] = {
    each.library: each for each in (BORINGSSL, AWS_LC, OPENSSL_WITHOUT_SYMBOLS)
}
"""The libraries whose functions are found in files without symbols, too."""

__all__ = [
    "PLANS",
    "WITHOUT_SYMBOLS",
    "Alternative",
    "At",
    "Listed",
    "Passing",
    "Plan",
    "PointerTable",
    "Row",
]
