"""Decoders of the protocols of databases: the bytes of a connection to statements."""
