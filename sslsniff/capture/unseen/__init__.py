"""TLS of watched processes whose plaintext no probe sees: which library, how many connections."""
