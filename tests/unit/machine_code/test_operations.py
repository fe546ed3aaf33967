"""An instruction is looked at once, wherever it is; what it means depends on where."""

import itertools

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import disassemble
from sslsniff.machine_code.operations import _operation
from tests import libraries

pytestmark = pytest.mark.heavy

FUNCTIONS = 200


@pytest.mark.parametrize("version", ["1.1.1", "3.0"])
def test_operations_are_those_of_the_place(version: str) -> None:
    relative = 0
    with Elf(str(libraries.library(version).path)) as elf:
        for _, function in itertools.islice(elf.functions(), FUNCTIONS):
            code = elf.code(function)
            found = Code(code, function.address).operations
            expected = [_operation(each) for each in disassemble(code, function.address)]
            assert list(found.values()) == expected
            relative += sum(each.leads_to is not None for each in expected)
    assert relative > FUNCTIONS
