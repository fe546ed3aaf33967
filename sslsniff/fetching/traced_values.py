"""Values of arguments and results, for people and programs alike.

Nothing changes a value once it is made. Those of which there may be 100,000 in a second are not
``frozen``: to make one that is takes twice as long.
"""

from dataclasses import dataclass
from enum import Enum


class Missing(Enum):
    """Why a value is not known; ``value``: the text that is shown."""

    OPTIMISED_OUT = "<optimised out>"
    UNREADABLE = "<unreadable>"
    """Its memory could not be read during the hit."""
    NOT_READABLE = "<in a vector register>"
    """A uprobe cannot read vector registers, in which floating-point numbers are passed."""
    UNKNOWN_TYPE = "<unknown type>"
    TOO_MUCH = "<not fetched>"
    """The limits of depth or size left it out."""


@dataclass(slots=True)
class PointerValue:
    """A pointer that was not followed; ``type``: what it leads to, "" if unknown."""

    number: int
    type: str = ""


@dataclass(slots=True)
class FollowedPointer:
    """A pointer with what it leads to: ``&{x=1, y=2}``."""

    number: int
    value: "Value"


@dataclass(slots=True)
class RawRegister:
    """What a register had where no debug info describes the argument."""

    name: str
    number: int


@dataclass(slots=True)
class Text:
    """A string; ``more``: how many of its bytes were not read (-1: unknown)."""

    text: str
    more: int = 0


@dataclass(slots=True)
class NamedNumber:
    """The name of a number in an enumeration; None: it has none."""

    name: str | None
    number: int


@dataclass(slots=True)
class Items:
    """The elements of an array, slice or vector; ``more``: how many were not read."""

    items: tuple["Value", ...]
    more: int = 0


@dataclass(slots=True)
class StructureValue:
    """A structure: its members by name in order; of a tuple the names are ``0``, ``1`` ...

    ``name``: the type, or the variant of an enum of Rust, such as ``Some``.
    ``is_variant``: it is one: ``Some(3)``, ``None``, ``Err("text")``.
    """

    name: str
    fields: tuple[tuple[str, "Value"], ...] = ()
    is_variant: bool = False


Value = (
    None
    | bool
    | int
    | float
    | str
    | Missing
    | PointerValue
    | FollowedPointer
    | RawRegister
    | Text
    | NamedNumber
    | Items
    | StructureValue
)
"""``str``: one character. ``None``: a null pointer, ``nil``, or the type without values."""
