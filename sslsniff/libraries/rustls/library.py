"""What is known of rustls."""

from typing import TYPE_CHECKING

from sslsniff.matching.library import Library

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf
    from sslsniff.matching.probe_set import KeyLog


def _key_log(elf: "Elf") -> "KeyLog":
    from sslsniff.libraries.rustls.key_log import rustls_key_log  # only to analyse a file

    return rustls_key_log(elf)


LIBRARY = Library(id="rustls", name="rustls", found_by="methods of ciphers", key_log=_key_log)
