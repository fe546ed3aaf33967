"""Says why a shared library of the BPF loaders cannot be used."""

from sslsniff.core.errors import LoaderError

_PACKAGES = {"libbpf": "libbpf1", "libbcc": "libbpfcc", "libbcc_bpf": "libbpfcc"}
"""Debian's packages, by the names of libraries before ``.so``."""


def library_error(error: OSError | AttributeError, used_by: str) -> LoaderError:
    """Return what the user reads of an error of ``ctypes``, which begins with the library's name.

    ``used_by``: the library that was opened. What is missing may be one that it needs.
    """
    library, _, reason = str(error).partition(": ")
    name = library.rpartition("/")[2].partition(".so")[0]
    package = _PACKAGES.get(name)
    if name != used_by:
        library = f"{library}, which {used_by} needs,"
    if reason.endswith("No such file or directory"):
        fact, remedy, options = "is not installed", "install it", ""
    else:
        fact, remedy, options = f"cannot be loaded ({reason})", "install it again", "--reinstall "
    by_package = f" (Debian: apt install {options}{package})" if package else ""
    return LoaderError(f"{library} {fact}", remedy + by_package)
