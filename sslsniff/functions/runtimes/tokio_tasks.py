"""Where the id of the current task is in programs with tokio.

While tokio runs a task, the thread-local variable ``CONTEXT`` has its id (tokio's
src/runtime/context.rs, ``current_task_id``; since tokio 1.21). The compiler orders the fields as it
likes, so that only debug info says where it is.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.thread_locals import ThreadLocal, thread_locals
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.functions.dwarf.function_model import DescribedFunction
from sslsniff.functions.dwarf.type_model import Pointer, Structure

_MODULE = "tokio::runtime::context::"
# Of the standard library; the variable is in it since Rust 1.79.
_STORAGE_FUNCTIONS = ("std::sys::thread_local::", "std::sys::pal::common::thread_local::")
_STORAGE = "Storage<tokio::runtime::context::Context>"
_VARIABLE = "5tokio7runtime7context7CONTEXT"  # as both manglings have it
_RUNTIME = b"5tokio7runtime"
_OTHER_RUNTIMES = {
    "async-executor": b"14async_executor",  # of async-std and smol
    "monoio": b"6monoio",
    "glommio": b"7glommio",
}
_ID = "Cell<core::option::Option<tokio::runtime::task::id::Id>>"


class FunctionSource(Protocol):
    """The debug info of a program."""

    def functions(self, is_wanted: "IsWanted", /) -> Iterable[DescribedFunction]:
        """Return the functions whose demangled names are wanted."""


class IsWanted(Protocol):
    """Says whether a function of this demangled name is wanted."""

    def __call__(self, name: str, /) -> bool: ...  # noqa: D102


def has_tokio(elf: Elf, debug: FunctionSource | None) -> bool:
    """Say whether a program has tokio's runtime in it, as far as its names are known."""
    symbols = elf.own_symbols()
    if symbols is not None and any(True for _ in symbols.names.places(_RUNTIME)):
        return True
    return debug is not None and any(True for _ in debug.functions(_is_of_context))


def other_runtime(elf: Elf) -> str | None:
    """Return the async runtime of a program whose tasks are not known; None: it has none."""
    symbols = elf.own_symbols()
    for name, part in _OTHER_RUNTIMES.items() if symbols is not None else ():
        if symbols is not None and any(True for _ in symbols.names.places(part)):
            return name
    return None


def tokio_task_location(elf: Elf, debug: FunctionSource | None) -> TaskLocation | None:
    """Return where the current task's id is in a program; None: that is not known.

    ``debug``: None: the program has no debug info.
    """
    if debug is None:
        return None
    variables = list(thread_locals(elf, _VARIABLE))
    types = list(_structures(debug)) if len(variables) == 1 else []
    for context in types:
        member = context.member("current_task_id")
        if context.name == "Context" and member is not None and member.type.name == _ID:
            value_at = _value_offset(variables[0], context, types)
            if value_at is not None:
                return TaskLocation(None, (variables[0].offset + value_at + member.offset,))
    return None


def _value_offset(
    variable: ThreadLocal, context: Structure, types: Iterable[Structure]
) -> int | None:
    """Return the offset of the context in the variable, which may have a state beside it."""
    if variable.size == context.size:
        return 0
    for storage in types:
        member = storage.member("val")
        if (storage.name, storage.size) == (_STORAGE, variable.size) and member is not None:
            return member.offset
    return None


def _is_of_context(name: str) -> bool:
    return name.startswith(_MODULE)


def _is_wanted(name: str) -> bool:
    """Say whether a function may have a parameter that leads to the context, or to its storage.

    Of the newer mangling, names of methods are like ``<std::sys::...::Storage<T>>::get``.
    """
    return _is_of_context(name) or name.removeprefix("<").startswith(_STORAGE_FUNCTIONS)


def _structures(debug: FunctionSource) -> Iterator[Structure]:
    """Yield the structures to which parameters of the functions refer."""
    for function in debug.functions(_is_wanted):
        copies = (each.parameters for each in function.copies)
        for parameter in (*function.parameters, *(each for found in copies for each in found)):
            if isinstance(parameter.type, Pointer):
                target = parameter.type.target()
                if isinstance(target, Structure):
                    yield target
