"""Types as debug info describes them, for all languages alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Read = TypeVar("_Read")


class ReadLater(Generic[_Read]):
    """A function without arguments that reads something when it is first called.

    ``result``: None: it was not called yet; else the only element is what it read.
    """

    def __init__(self, read: Callable[[], _Read]) -> None:
        self._read = read
        self.result: tuple[_Read] | None = None

    def __call__(self) -> _Read:
        """Return what it read."""
        if self.result is None:
            self.result = (self._read(),)
        return self.result[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A type; ``name``: as debug info has it, of a typedef if there is one; ``size`` in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownType(Type):
    """A type that is only declared, or of a form that is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Type):
    """A whole number."""

    is_signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Type):
    """True or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Character(Type):
    """A character of text: of one byte in C, of four in Rust (a code point of Unicode)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floating(Type):
    """A floating-point number of 4, 8 or 16 bytes (x87's, of which 10 count)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration(Type):
    """A number with names: ``names`` has the name of each known one."""

    is_signed: bool
    names: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer(Type):
    """A pointer or reference; ``target`` returns what it leads to, None: void or unknown.

    A function: types may lead to themselves.
    """

    target: Callable[[], Type | None] = field(repr=False, compare=False)
    is_reference: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Type):
    """``count`` elements one after the other; None: unknown.

    ``is_vector``: it is one of a vector extension (DW_AT_GNU_vector), passed in vector registers.
    """

    element: Type
    count: int | None
    is_vector: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """A part of a structure at ``offset`` bytes; ``bits``: a bit field's first bit and width."""

    name: str
    offset: int
    type: Type
    bits: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TypeVariant:
    """A form of an enum of Rust: ``values`` of the discriminant that mean it; empty: the others."""

    name: str
    values: frozenset[int]
    type: Type
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure(Type):
    """A struct, class, tuple or union.

    ``members``: in the order of declaration, base classes first.
    ``variants``: of an enum of Rust with data; ``discriminant`` tells which one is there, None:
    there is only one.
    ``type_arguments``: returns those of a template or generic type by name. A function: a class may
    be the argument of its own base class.
    ``is_passed_by_reference``: of a class of C++ that is not trivial (DW_AT_calling_convention).
    """

    members: tuple[Member, ...]
    is_union: bool = False
    variants: tuple[TypeVariant, ...] = ()
    discriminant: Member | None = None
    type_arguments: Callable[[], Mapping[str, Type]] = field(
        default=dict[str, Type], repr=False, compare=False
    )
    is_passed_by_reference: bool = False

    def member(self, name: str) -> Member | None:
        """Return the member called ``name``; None: there is none."""
        return next((each for each in self.members if each.name == name), None)
