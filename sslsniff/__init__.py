"""sslsniff: the plaintext of TLS traffic on a Linux host, live."""

__version__ = "0.1.0"
