"""TLS handshakes of watched processes after which no data passed: how each ended."""
