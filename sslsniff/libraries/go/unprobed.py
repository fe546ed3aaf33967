"""Names Go's crypto/tls where it has no probes."""

from sslsniff.matching.library import UnprobedLibrary

UNPROBED = UnprobedLibrary(
    library="go",
    name="Go (crypto/tls)",
    remedy="its tls.Config.KeyLogWriter can write keys for Wireshark",
)
"""Recognised by what Go's linker adds to a program: ``sslsniff.libraries.go.programs``."""
