"""What ``sslsniff symbols`` asks the worker that looks into the file."""

SEARCH = "search"
"""Begin; with ``--tls``, return all."""
NEXT = "next"
"""Return the next objects; none: there are no more."""
MISSING = "missing"
"""Return what may be missing from those that were returned."""
