"""The TLS libraries that are probed: a folder here and one line below for each."""

from sslsniff.libraries.boringssl.plan import AWS_LC, BORINGSSL
from sslsniff.libraries.gnutls.plan import GNUTLS
from sslsniff.libraries.libressl.plan import LIBRESSL
from sslsniff.libraries.mbedtls.plan import MBEDTLS
from sslsniff.libraries.nss.plan import NSS
from sslsniff.libraries.openssl.plan import OPENSSL, OPENSSL_WITHOUT_SYMBOLS
from sslsniff.libraries.s2n.plan import S2N
from sslsniff.libraries.wolfssl.plan import WOLFSSL
from sslsniff.matching.rows import Plan

PLANS: tuple[Plan, ...] = (BORINGSSL, LIBRESSL, OPENSSL, GNUTLS, NSS, WOLFSSL, MBEDTLS, S2N)
"""A file has those whose ``symbols`` it defines; of those with the same symbols the first."""

WITHOUT_SYMBOLS: dict[str, Plan] = {
    each.library: each for each in (BORINGSSL, AWS_LC, OPENSSL_WITHOUT_SYMBOLS)
}
"""The libraries whose functions are found in files without symbols, too."""
