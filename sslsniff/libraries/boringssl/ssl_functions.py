"""Finds the functions of BoringSSL and AWS-LC in a program without symbols.

The steps: errors of ssl/ssl_lib.cc (``error_calls``); the functions of their lines, in each way to
read these (``line_order``); what the functions do (``read_proofs``, ``write_proofs``,
``life_proofs``). A doubtful function is not used, and a step that fails says why.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.boringssl.error_reasons import ERR_LIB_SSL, SOURCE
from sslsniff.libraries.boringssl.life_proofs import (
    find_handshake,
    find_new_and_free,
    find_server_name,
    find_shutdown,
)
from sslsniff.libraries.boringssl.line_order import LineOrderError, readings_of_lines
from sslsniff.libraries.boringssl.object_fields import read_object_fields
from sslsniff.libraries.boringssl.read_proofs import Reads, find_reads
from sslsniff.libraries.boringssl.write_proofs import find_write
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.stripped.error_calls import NoErrorsError, find_error_calls
from sslsniff.matching.stripped.evidence import FoundSsl, LineOwners, SslFunction, refused

_AWS_LC = b"AWS-LC"


def find_ssl_functions(elf: Elf) -> FoundSsl:
    """Find the functions of BoringSSL or AWS-LC in a file; raises ``ElfError`` if it is damaged."""
    library = "aws-lc" if _AWS_LC in elf.section_region(".rodata") else "boringssl"
    code = StrippedCode(elf)
    errors = None
    try:
        errors = find_error_calls(code, SOURCE, ERR_LIB_SSL)
        readings = readings_of_lines([(each.line, each.reason) for each in errors.errors])
    except (NoErrorsError, LineOrderError) as error:
        return FoundSsl(library, errors, (), str(error))
    found = [_prove(LineOwners(code, errors.errors, each)) for each in readings]
    functions = _agreed([each.functions for each in found])
    states = {each.state for each in found}
    layout = read_object_fields(code, functions, states.pop() if len(states) == 1 else None)
    return FoundSsl(library, errors, tuple(functions), None, layout)


def _prove(owners: LineOwners) -> Reads:
    """Return all functions by one reading of the lines."""
    write = find_write(owners)
    reads = find_reads(owners)
    users = [write, *(each for each in reads.functions if each.name == "ssl_read_impl")]
    found = (
        *reads.functions,
        write,
        find_handshake(owners, users),
        find_shutdown(owners),
        *find_new_and_free(owners),
        find_server_name(owners),
    )
    return Reads([each for each in found if each is not None], reads.state)


def _agreed(readings: list[list[SslFunction]]) -> list[SslFunction]:
    """Return each function as all readings have it; it is doubtful if they do not agree."""
    by_name = [{each.name: each for each in functions} for functions in readings]
    agreed = []
    for name in dict.fromkeys(name for functions in by_name for name in functions):
        found = [functions.get(name, refused(name, "it has no lines")) for functions in by_name]
        places = {each.function for each in found}
        doubtful = next((each for each in found if not each.is_proved), None)
        if doubtful is None and len(places) > 1:
            doubtful = refused(name, f"its lines may be in {len(places)} functions")
        agreed.append(doubtful or found[0])
    return agreed
