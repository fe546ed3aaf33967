"""Which classes of C++ are passed by reference: those that are not trivial.

They have a destructor, or a copy or move constructor, that is written by somebody, or virtual
functions, or a part that is such a class (Itanium C++ ABI, "non-trivial for the purposes of
calls"). Clang says it in an attribute; GCC does not.
"""

from collections.abc import Iterable

from elftools.dwarf.enums import ENUM_DW_CC

from sslsniff.functions.dwarf.debug_units import Entry
from sslsniff.functions.dwarf.type_model import Array, Member, Structure, Type

_BY_REFERENCE = ENUM_DW_CC["DW_CC_pass_by_reference"]
_IN_CLASS = 1  # DW_DEFAULTED_in_class (DWARF 5, section 7.29)
_REFERENCES = ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_VIRTUAL_TABLE = "_vptr"


def is_passed_by_reference(entry: Entry, members: Iterable[Member]) -> bool:
    """Say whether a class is passed by reference, by its entry and its members."""
    convention = entry.number("DW_AT_calling_convention")
    if convention is not None:
        return convention == _BY_REFERENCE
    name = (entry.name or "").partition("<")[0]
    if any(_is_by_reference(each.type) or each.name.startswith(_VIRTUAL_TABLE) for each in members):
        return True
    return any(
        _is_not_trivial(each, name) for each in entry.children() if each.tag == "DW_TAG_subprogram"
    )


def _is_by_reference(type: Type) -> bool:
    if isinstance(type, Array):
        return _is_by_reference(type.element)
    return isinstance(type, Structure) and type.is_passed_by_reference


def _is_not_trivial(function: Entry, class_name: str) -> bool:
    """Say whether a function of a class is such a destructor or constructor."""
    if function.number("DW_AT_defaulted") == _IN_CLASS or "DW_AT_deleted" in function:
        return False
    if (function.name or "").startswith("~"):
        return True
    if not class_name or (function.name or "").partition("<")[0] != class_name:
        return False
    parameters = [each for each in function.children() if each.tag == "DW_TAG_formal_parameter"]
    if len(parameters) < 2:
        return False
    reference = parameters[1].reference("DW_AT_type")
    if reference is None or reference.tag not in _REFERENCES:
        return False
    target = reference.reference("DW_AT_type")
    while target is not None and target.tag == "DW_TAG_const_type":
        target = target.reference("DW_AT_type")
    return target is not None and (target.name or "").partition("<")[0] == class_name
