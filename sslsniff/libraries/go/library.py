"""What is known of Go's crypto/tls."""

from typing import TYPE_CHECKING

from sslsniff.matching.library import Library, UnprobedLibrary

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf
    from sslsniff.matching.probe_set import KeyLog

_NAME = "Go (crypto/tls)"


def _key_log(elf: "Elf") -> "KeyLog":
    from sslsniff.libraries.go.key_log import go_key_log  # only to analyse a file

    return go_key_log(elf)


UNPROBED = UnprobedLibrary(
    library="go",
    name=_NAME,
    remedy="its tls.Config.KeyLogWriter can write keys for Wireshark",
)
"""Recognised by what Go's linker adds to a program: ``sslsniff.libraries.go.programs``."""

LIBRARY = Library(id="go", name=_NAME, found_by="function table", key_log=_key_log)
