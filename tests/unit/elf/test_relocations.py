"""Pointers of a file, found by where they are and by what they point to."""

from array import array

from sslsniff.elf.relocations import Pointers


def test_the_order_of_the_tables_does_not_matter() -> None:
    pairs = [(0x40, 3), (0x10, 1), (0x50, 1), (0x20, 2)]
    for given in (pairs, sorted(pairs)):
        pointers = Pointers(*(array("Q", column) for column in zip(*given, strict=True)))
        assert {slot: pointers.at(slot) for slot, _ in pairs} == dict(pairs)
        assert [pointers.at(each) for each in (0, 0x18, 0x58)] == [None] * 3
        assert sorted(pointers.to({1, 9})) == [(0x10, 1), (0x50, 1)]
