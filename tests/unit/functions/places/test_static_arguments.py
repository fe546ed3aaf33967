"""Arguments of static probes in forms that no compiler writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.places.static_arguments import static_arguments

OPERANDS = "0123456789@-+$%(),:xf rdieacxs"


@pytest.mark.parametrize(
    "operand",
    [
        *(
            "16@%rax",
            "8@8(%rip)",
            "8@name+other(%rip)",
            "8@name(%rax)",
            "8@%gs:8",
            "8@(%rax,%xmm1)",
        ),
        *("8@foo@GOTPCREL(%rip)", "8@$name", "8@*%rax", "0@%rax"),
    ],
)
def test_what_cannot_be_known_is_no_number(operand: str) -> None:
    known = {"name": 0x2000, "other": 0x3000}
    [wanted] = static_arguments(operand, 0x1000, known.get)
    assert wanted.location is Missing.UNKNOWN_TYPE


def test_a_size_may_be_missing() -> None:
    sizes = [
        each.type and each.type.size for each in static_arguments("%eax %rdi", 0, lambda _: None)
    ]
    assert sizes == [4, 8]


@pytest.mark.tools
@given(st.text(OPERANDS) | st.text())
def test_arbitrary_text_raises_nothing(text: str) -> None:
    for each in static_arguments(text, 0x1000, lambda _: 0x2000):
        assert each.name.startswith("arg")
