"""What is known of NSS."""

from sslsniff.core.library_failure import received
from sslsniff.libraries.nss.plan import NSS
from sslsniff.matching.library import Library

LIBRARY = Library(
    id="nss",
    name="NSS",
    plan=NSS,
    failure=received,
    found_by="method tables",
    no_key_log="NSS takes secrets out of its key store only for a program that asks for them",
)
