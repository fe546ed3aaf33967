"""Finds the functions of BoringSSL and AWS-LC in a program without symbols.

The steps: errors of ssl/ssl_lib.cc (``error_calls``); the function of each line (``line_order``);
what these functions do (``data_proofs``, ``life_proofs``). A doubtful function is not used, and a
step that fails says why.
"""

from typing import NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.probing.boringssl.data_proofs import find_reads, find_write
from sslsniff.probing.boringssl.error_calls import ErrorCalls, NoErrorsError, find_error_calls
from sslsniff.probing.boringssl.error_reasons import ERR_LIB_SSL, SOURCE
from sslsniff.probing.boringssl.evidence import LineOwners, SslFunction
from sslsniff.probing.boringssl.life_proofs import (
    find_handshake,
    find_new_and_free,
    find_server_name,
    find_shutdown,
)
from sslsniff.probing.boringssl.line_order import LineOrderError, functions_of_lines
from sslsniff.probing.boringssl.object_fields import read_object_fields
from sslsniff.probing.object_layout import ObjectLayout

_AWS_LC = b"AWS-LC"


class FoundSsl(NamedTuple):
    """What was found of the library in a file.

    ``library``: "boringssl", "aws-lc" or "openssl".
    ``errors``: the errors of its source file; None: they were not found.
    ``functions``: its functions, proved or not.
    ``refusal``: the step that failed, and why; None: none did.
    ``layout``: the fields of its objects, as far as these functions prove them.
    """

    library: str
    errors: ErrorCalls | None
    functions: tuple[SslFunction, ...]
    refusal: str | None
    layout: ObjectLayout = ObjectLayout()


def find_ssl_functions(elf: Elf) -> FoundSsl:
    """Find the functions of BoringSSL or AWS-LC in a file; raises ``ElfError`` if it is damaged."""
    library = "aws-lc" if _AWS_LC in elf.section_region(".rodata") else "boringssl"
    code = StrippedCode(elf)
    errors = None
    try:
        errors = find_error_calls(code, SOURCE, ERR_LIB_SSL)
        names = functions_of_lines([(each.line, each.reason) for each in errors.errors])
    except (NoErrorsError, LineOrderError) as error:
        return FoundSsl(library, errors, (), str(error))
    owners = LineOwners(code, errors.errors, names)
    write = find_write(owners)
    reads = find_reads(owners)
    users = [write, *(each for each in reads if each.name == "ssl_read_impl")]
    found = (
        *reads,
        write,
        find_handshake(owners, users),
        find_shutdown(owners),
        *find_new_and_free(owners),
        find_server_name(owners),
    )
    functions = [each for each in found if each is not None]
    layout = read_object_fields(code, functions)
    return FoundSsl(library, errors, tuple(functions), None, layout)
