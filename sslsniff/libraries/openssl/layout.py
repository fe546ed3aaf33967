"""Offsets in OpenSSL's SSL object, read from the library's own accessor functions.

Offsets differ between releases and builds. The accessor functions have them: ``SSL_is_server``
loads the field ``server``, and so on. An offset that is not proved stays None.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.matching.accessors import (
    MemoryLoad,
    NumberedArgument,
    chain_of,
    counted_field,
    field_of,
    follow_accessor,
    only,
    single,
)
from sslsniff.matching.key_log.client_random import random_in_object
from sslsniff.matching.object_layout import ObjectLayout


def read_openssl_layout(elf: Elf) -> ObjectLayout:
    """Return the layout of SSL objects of the library in ``elf``."""
    server = follow_accessor(elf, "SSL_is_server")
    version = follow_accessor(elf, "SSL_version")
    alpn = follow_accessor(elf, "SSL_get0_alpn_selected")
    cipher = follow_accessor(elf, "SSL_get_current_cipher")
    name = follow_accessor(elf, "SSL_CIPHER_get_name")
    free = follow_accessor(elf, "SSL_free")
    shutdown = follow_accessor(elf, "SSL_get_shutdown")
    verified = follow_accessor(elf, "SSL_get_verify_result")
    random = random_in_object(elf, copied_by="SSL_get_client_random")
    names = {
        chain
        for value in follow_accessor(elf, "SSL_get_servername").results
        if (chain := chain_of(value))
    }
    own_name = only({each for each in names if len(each) == 1}) or (None,)
    inner_name = only({each for each in names if len(each) == 2}) or (None, None)
    alpn_field = field_of(alpn.stores.get(1, set()))
    length_field = field_of(alpn.stores.get(2, set()))
    if alpn_field and length_field and alpn_field[:-1] != length_field[:-1]:
        length_field = None
    cipher_field = field_of(cipher.results)
    if cipher_field is not None and len(cipher_field) != 2:
        cipher_field = None
    return ObjectLayout(
        server=single(field_of(server.results)),
        version=single(field_of(version.results)),
        alpn_base=alpn_field[0] if alpn_field and len(alpn_field) == 2 else None,
        alpn=alpn_field[-1] if alpn_field and length_field else None,
        alpn_length=length_field[-1] if alpn_field and length_field else None,
        session=cipher_field[0] if cipher_field else None,
        session_cipher=cipher_field[1] if cipher_field else None,
        cipher_name=single(field_of(name.results)),
        references=counted_field(free),
        sni=own_name[0],
        sni_base=inner_name[0],
        sni_inner=inner_name[1],
        shutdown=single(field_of(shutdown.results)),
        verified=single(field_of(verified.results)),
        random_base=random[0] if len(random) == 2 else None,
        random=random[-1] if random else None,
        is_typed=1 if MemoryLoad(NumberedArgument(0), 0) in server.tested else None,
    )
