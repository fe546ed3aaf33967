"""What is known of NSS."""

from sslsniff.libraries.nss.failures import failure
from sslsniff.libraries.nss.plan import NSS
from sslsniff.matching.library import Library

LIBRARY = Library(
    id="nss",
    name="NSS",
    plan=NSS,
    failure=failure,
    found_by="method tables",
    no_key_log="NSS takes secrets out of its key store only for a program that asks for them",
)
