"""Finds the functions of BoringSSL and AWS-LC in a program without symbols.

Problem. Bun, Chromium and gRPC's wheels have BoringSSL linked in, and no symbols. To capture them,
the addresses of ``SSL_read``, ``SSL_write`` and some others must be found in the machine code. A
wrong address would be worse than none: its probes would show wrong bytes, or damage the program.

Facts that make a proof possible:

- An error of BoringSSL is a call of ``ERR_put_error(library, unused, reason, file, line)``. All are
  constants, the library's is 16, and the file's name is a text in the program. A stripped program
  has them still.
- Functions keep their order in the source file, so the lines of errors have it, too. A compiler may
  move, copy, merge or inline the calls: a line stays the source's line.
- The reasons of the errors, ordered by line, tell which function each line is in
  (``error_reasons``, ``line_order``). The numbers of lines do not matter: each release has others.
- What a function does with its arguments tells an original from a function in which it is inlined.

Why simpler ways fail. Bytes to search for differ with each release, compiler and option. The lines
alone are not enough: ``SSL_peek`` may be inlined in ``SSL_read``, which has its line then. Where
functions begin may be unknown: Bun has no unwind table, and that of Chromium covers only a part.

The steps, with the modules of ``machine_code.stripped`` that they use:

1. Find the text that ends with ``ssl/ssl_lib.cc``, and all code that refers to it (``references``).
   Nothing is disassembled for that, so some matches are no instructions.
2. Find the functions around: by the unwind table, else where calls and pointers lead to, and after
   padding (``function_starts``). A reference belongs to a function if a path from its start leads
   there (``stripped_code``).
3. Follow the paths of these functions (``path_walk``), and find their errors (``error_calls``).
   Paths are kept apart, because a merged call has a line and a reason on each path to it.
4. Assign a function's name to each line, in each way to read the order. Of the ways, those count
   that explain the most lines. More than four are refused.
5. Prove each function by what it does (``read_proofs``, ``write_proofs``, ``life_proofs``).
   ``SSL_free`` raises no error: ``SSL_new`` leads to it.
6. Read the fields of objects off from the proved functions (``object_fields``).

Example: the reasons of a BoringSSL of 2024 (tests/unit/libraries/boringssl/test_line_order.py).

    134         SSL_do_handshake: one line alone has this reason, and the reading begins there
    182 110     ssl_do_post_handshake
    66          SSL_process_quic_post_handshake
    226 215     ssl_read_impl
    66          SSL_peek
    66 226 ...  SSL_write: 66 226 215 111

Then the lines of ``SSL_write`` must be in one function, and no line of another function with them,
except that of ``SSL_do_handshake``. The function must hand its object, buffer and size to a method
of its object. It must return -1, 0, or what a callee returned or stored. ``SSL_read`` is proved by
what it does to received data: it takes away what ``SSL_peek`` copied.

Invariants:

- A function is used only if something speaks for it, and nothing against it
  (``SslFunction.is_proved``). All its paths must be followed, and its end must be proved.
- A doubtful function is not used, and a step that fails says why.
- If the lines can be read in several ways, all of them must have the function at one place
  (``_agreed``).
- If ``SSL_read`` or ``SSL_write`` is doubtful, the library is not probed
  (``analysis.stripped_fitting``).

Limits: x86-64. Orders of reasons that are not in ``error_reasons``, as in sources of 2018, are
refused, and so is an ``SSL_write`` that is inlined in others. Optimisation at link time may inline
so much that ``SSL_read`` is refused.

Sources: BoringSSL from 2019 to 2026 and AWS-LC, as ``error_reasons`` says. README.md beside this
module has the releases and builds that were tested, and how many functions were found and refused.
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
from sslsniff.matching.stripped.error_calls import ErrorCalls, NoErrorsError, find_error_calls
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
    functions.append(_find_raising(code, errors))
    return FoundSsl(library, errors, tuple(functions), None, layout)


def _find_raising(code: StrippedCode, errors: ErrorCalls) -> SslFunction:
    """Return ``ERR_put_error``, which all errors lead to."""
    function = code.function(errors.raise_function)
    proof = f"it is called with the lines and reasons of {len(errors.errors)} errors"
    against = () if function else ("where it ends is not proved",)
    return SslFunction("ERR_put_error", function, proofs=(proof,), against=against)


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
