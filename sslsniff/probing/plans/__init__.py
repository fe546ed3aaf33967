"""What to probe in each TLS library: data only. A library is one module here and one line below."""

from sslsniff.probing.plans.gnutls import GNUTLS
from sslsniff.probing.plans.nss import NSS
from sslsniff.probing.plans.openssl import BORINGSSL, OPENSSL
from sslsniff.probing.plans.rows import Alternative, At, Listed, Passing, Plan, PointerTable, Row

PLANS: tuple[Plan, ...] = (BORINGSSL, OPENSSL, GNUTLS, NSS)
"""The plan of a file is the first one whose ``symbols`` the file defines."""

__all__ = ["PLANS", "Alternative", "At", "Listed", "Passing", "Plan", "PointerTable", "Row"]
