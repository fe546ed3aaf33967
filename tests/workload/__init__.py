"""TLS servers and clients, and what starts them.

Tests, ``bench``, ``docs/demo`` and ``pcaps`` share them. The programs lie in a folder for each
language. Nothing here imports a test.
"""
