"""Finds ``SSL_free``, which raises no errors: it counts the references to its object.

What makes an object frees it again if it fails: ``SSL_free(ssl)`` gets what an allocation returned.
"""

from collections.abc import Iterable, Iterator, Sequence

from sslsniff.machine_code.known_values import Result
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.accessors import counted_field, follow_function
from sslsniff.matching.stripped.evidence import OBJECT, SslFunction, hex_list

_NAME = "SSL_free"
_INT_BYTES = 4


def find_free(code: StrippedCode, makers: Sequence[SslFunction]) -> tuple[SslFunction, int | None]:
    """Return ``SSL_free``, and the offset of the number of references; None: it is not known.

    ``makers``: the functions that make objects. Raises ``ElfError``.
    """
    walks = [code.walk(each.function.address) for each in makers if each.function is not None]
    handed = {
        each.target
        for walk in walks
        for each in walk.calls
        if each.target is not None and isinstance(each.argument("rdi"), Result)
    }
    code.starts.cover(handed)
    counted: dict[int, int] = {}
    for each in handed:
        function = code.function(each)
        field = counted_field(follow_function(code.elf, function)) if function else None
        if field is not None:
            counted[each] = field
    set_at_first = {*_set(walks, made=True), *_set(map(code.walk, handed - counted.keys()))}
    found = {each: field for each, field in counted.items() if field in set_at_first}
    if len(found) != 1:
        places = hex_list([*found])
        reason = f"what makes objects hands them to {len(found)} functions that count references"
        return SslFunction(_NAME, None, against=(f"{reason} ({places})",)), None
    [(address, references)] = found.items()
    proofs = (
        "what makes objects hands them to it, if it fails",
        f"it counts in [rdi+{references:#x}], which is set when an object is made",
    )
    cold_parts = tuple(code.walk(address).cold_parts())
    return SslFunction(_NAME, code.function(address), (), proofs, (), cold_parts), references


def _set(walks: Iterable[Walk], *, made: bool = False) -> Iterator[int]:
    """Yield the offsets at which functions store ints in the object that they get, or make."""
    for walk in walks:
        for each in walk.stores:
            is_it = isinstance(each.base, Result) if made else each.base == OBJECT
            if is_it and each.size == _INT_BYTES:
                yield each.offset
