"""Finds calls of ``ERR_set_debug``, whose argument is the name of the calling function.

Since 3.0, ``ERR_raise(lib, reason)`` calls ``ERR_set_debug(file, line, function)`` with the
function's name as a text. In 1.1.1 it is ``ERR_put_error(lib, function, reason, file, line)``, with
a number for each function (include/openssl/sslerr.h).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import Number
from sslsniff.machine_code.stripped.path_walk import WalkedCall
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.stripped.error_calls import (
    ErrorCalls,
    NoErrorsError,
    number_of,
    text_calls,
)

SOURCE = b"ssl/ssl_lib.c"
_ERR_LIB_SSL = 20
_NAMES_BY_NUMBER = {
    180: "SSL_do_handshake",
    186: "SSL_new",
    208: "SSL_write",
    223: "SSL_read",
    224: "SSL_shutdown",
    270: "SSL_peek",
    433: "SSL_write_ex",
    434: "SSL_read_ex",
    522: "ssl_peek_internal",
    523: "ssl_read_internal",
    524: "ssl_write_internal",
}
_NAME = ARGUMENTS[2]  # of ERR_set_debug
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")


class NamedError(NamedTuple):
    """An error of the source's function ``name``, raised on ``line`` in the function at ``owner``.

    ``place``: the call. A compiler may have inlined one function into the other.
    """

    owner: int
    place: int
    line: int
    name: str


_Reader = Callable[[StrippedCode, WalkedCall], tuple[int, str] | None]
"""Returns the line and the name in a call; None: the call is another one."""


def find_named_errors(code: StrippedCode) -> tuple[ErrorCalls, tuple[NamedError, ...]]:
    """Return the errors of OpenSSL's ssl_lib.c, and the function that raises or describes them.

    Raises ``NoErrorsError`` if there are none, and ``ElfError``.
    """
    shown = SOURCE.decode()
    texts = code.texts_ending_with(SOURCE)
    if not texts:
        raise NoErrorsError(f"it has no text that ends with {shown}")
    calls = text_calls(code, texts)
    for register, read in _FORMS.items():
        found = [
            (each.call.target, NamedError(each.owner, each.call.address, *said))
            for each in calls
            if each.register == register and (said := read(code, each.call)) is not None
        ]
        if found:
            break
    else:
        raise NoErrorsError(f"no call has the text {shown}, a line and the name of a function")
    # Any other function with such arguments would be something else.
    [(target, _)] = Counter(target for target, _ in found).most_common(1)
    if target is None:
        raise NoErrorsError(f"the calls with the text {shown} are indirect")
    errors = dict.fromkeys(error for each, error in found if each == target)
    name = code.text(texts[0][0]) or shown
    references = len({each.call.address for each in calls})
    return ErrorCalls((), target, name, references, ()), tuple(sorted(errors))


def owners_of_names(
    code: StrippedCode, describe_function: int, names: Collection[str]
) -> dict[str, int]:
    """Return where functions of any source file begin, by their ``names`` in errors (since 3.0).

    ``describe_function``: ``ERR_set_debug``. A name in the errors of several functions is left out.
    Raises ``ElfError``.
    """
    places = [place for name in names for place in code.places_of(name.encode())]
    owners: dict[str, set[int]] = {}
    for each in text_calls(code, places):
        said = _described(code, each.call) if each.register == _NAME else None
        if said is not None and each.call.target == describe_function:
            owners.setdefault(said[1], set()).add(each.owner)
    return {
        name: next(iter(found))
        for name, found in owners.items()
        if name in names and len(found) == 1
    }


def _described(code: StrippedCode, call: WalkedCall) -> tuple[int, str] | None:
    """Read ``ERR_set_debug(file, line, function)``."""
    line, name = (call.argument(each) for each in (ARGUMENTS[1], _NAME))
    text = code.text(name.value) if isinstance(name, Number) else None
    number = number_of(line)
    if number is None or text is None or not _IDENTIFIER.fullmatch(text):
        return None
    return number, text


def _put(_code: StrippedCode, call: WalkedCall) -> tuple[int, str] | None:
    """Read ``ERR_put_error(lib, function, reason, file, line)``; others have no name here."""
    library, function, _, _, line = (number_of(call.argument(each)) for each in ARGUMENTS[:5])
    if library != _ERR_LIB_SSL or line is None or function not in _NAMES_BY_NUMBER:
        return None
    return line, _NAMES_BY_NUMBER[function]


_FORMS: dict[str, _Reader] = {ARGUMENTS[0]: _described, ARGUMENTS[3]: _put}
"""The argument with the file's name -> how to read the call."""
