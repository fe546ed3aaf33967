"""Passive, sans-IO protocol decoders: bytes of both directions in, messages out.

Nothing here reads a clock, a file or a socket, and nothing here imports the rest
of sslsniff. The package is imported as ``sslsniff.decoders``.
"""
