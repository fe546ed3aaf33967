"""Says where values are at a probe: in registers, or in memory that these lead to."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sslsniff.fetching.fetch_steps import FetchStep

REGISTERS = frozenset(
    {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{each}" for each in range(8, 16))}
)
_WORD_BYTES = 8


class Chain(NamedTuple):
    """A number that a register leads to.

    For each of ``loads`` it becomes the word in memory at the number plus the load; then ``add`` is
    added. For example rdi, (168,), 184 is the address of byte 184 in what the word at rdi + 168
    points to.
    """

    register: str
    loads: tuple[int, ...] = ()
    add: int = 0

    def plus(self, offset: int) -> "Chain":
        """Return the number plus ``offset``."""
        return self._replace(add=self.add + offset)

    def loaded(self, offset: int = 0) -> "Chain":
        """Return the word in memory at the number plus ``offset``."""
        return Chain(self.register, (*self.loads, self.add + offset))

    def steps(self) -> "tuple[FetchStep, ...]":
        """Return the steps that push the number."""
        from sslsniff.fetching.fetch_steps import FetchStep, StepKind
        from sslsniff.fetching.locations import REGISTER_NAMES, add_constant, push_register

        return (
            *push_register(REGISTER_NAMES.index(self.register)),
            *(FetchStep(StepKind.READ, each, 0, _WORD_BYTES) for each in self.loads),
            *add_constant(self.add),
        )
