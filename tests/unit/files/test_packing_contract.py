"""What packing.c and packing.py share: the layouts of structs, and constants."""

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

from sslsniff.core import ring_records, wire
from sslsniff.core.events import DIRECTIONS
from sslsniff.files import null_tls, packing


class _LayoutRow(ctypes.Structure):
    """``struct layout_row`` of packing.h."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_uint64), ("size", ctypes.c_uint64))


class _ConstantRow(ctypes.Structure):
    """``struct constant_row`` of packing.h."""

    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_uint64))


class Place(NamedTuple):
    offset: int
    size: int


def exported(name: str, row: type[Any]) -> Iterator[Any]:
    """Yield the rows of a table that the library exports, up to the one without a name."""
    address = ctypes.addressof(row.in_dll(packing._library(), name))
    while (each := row.from_address(address)).name is not None:
        yield each
        address += ctypes.sizeof(row)


def places(name: str, structure: type[ctypes.Structure]) -> dict[str, Place]:
    """Return where the fields of a ctypes structure are, by the names that they have in C."""
    found = {name: Place(0, ctypes.sizeof(structure))}
    for field, _ in structure._fields_:  # type: ignore[misc]
        place = getattr(structure, field)
        found[f"{name}.{field.lstrip('_')}"] = Place(place.offset, place.size)
    return found


def test_layouts_are_those_of_the_library() -> None:
    header_bytes = ring_records.HEADER_BYTES
    assert {
        each.name.decode(): Place(each.offset, each.size)
        for each in exported("contract_layouts", _LayoutRow)
    } == {
        **places("packet_template", packing.Template),
        **places("endpoint", packing.Endpoint),
        **places("endpoint_pair", packing.EndpointPair),
        "batch.bytes": Place(0, ctypes.sizeof(ctypes.c_uint64)),
        "record.length": Place(0, 4),
        "record.event": Place(header_bytes, wire.DATA.size),
        "record": Place(0, header_bytes + wire.DATA.size),
    }


def test_constants_are_those_of_the_library() -> None:
    assert {
        each.name.decode(): each.value for each in exported("contract_constants", _ConstantRow)
    } == {
        "BATCH_BYTES": packing.BATCH_BYTES,
        "KEPT_TEMPLATES": packing.KEPT_TEMPLATES,
        "DIRECTIONS": len(DIRECTIONS),
        "MOST_DATA_BYTES": null_tls.LARGEST_RECORD_BYTES,
        "DISCARDED": ring_records.DISCARDED,
    }
