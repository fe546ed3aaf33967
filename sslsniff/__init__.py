"""sslsniff: the plaintext of TLS traffic on a Linux host, live."""
