"""Parts of the names of types."""


def plain_name(name: str) -> str:
    """Return a name without namespaces and type arguments: ``Vec`` of ``alloc::vec::Vec<u8>``."""
    return name.partition("<")[0].rpartition("::")[2].strip()
