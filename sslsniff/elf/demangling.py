"""Readable names for mangled symbols. Only this module knows which library does it."""


def demangle(name: str) -> str | None:
    """Return a Rust name in words, without its hash; None where ``name`` is none.

    Both schemes: legacy (``_ZN...17h<hash>E``) and v0 (``_R...``, RFC 2603).
    """
    import pyderust  # only who looks at symbols needs it

    if not name.startswith(("_ZN", "_R")):
        return None
    try:
        return pyderust.demangle(name)
    except pyderust.DemangleError:
        return None
