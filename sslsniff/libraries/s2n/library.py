"""What is known of s2n-tls."""

from sslsniff.libraries.s2n.plan import S2N
from sslsniff.matching.library import Library, without_symbols

LIBRARY = Library(
    id="s2n",
    name="s2n-tls",
    plan=S2N,
    unprobed=without_symbols(
        "s2n", "s2n-tls", (b"Retried s2n_send() size is invalid\0", b"/s2n_connection.c:")
    ),
    no_key_log="s2n makes secrets known only to a program that asks for them",
)
