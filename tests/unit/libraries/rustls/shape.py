"""A cipher as rustc compiles it, in assembly, to be put together right or not quite."""

from collections.abc import Iterable
from pathlib import Path

from tests.unit import rust_files
from tests.unit.rust_files import assembled, function, strings

COMPARE = "cmp $%d, %%rsi\nja 1f\n1: ret"
TLS12, TLS13 = 1 << 14, (1 << 14) + 1
HEAD = ".quad 0, 560, 16"
DROPPED = ".quad inner, %s"

_SYMBOLS = {"encrypt": rust_files.TLS13_ENCRYPT, "decrypt": rust_files.TLS13_DECRYPT}


class Shape:
    """A cipher of TLS 1.3; each of its parts can be another."""

    length = "lea 17(%rsi), %rax\nret"
    encrypt = "nop\nret"
    decrypt = COMPARE % TLS13
    inner = "ret"
    decrypter = f"{HEAD}, decrypt"
    between = ".quad path, 60, 0"
    encrypter = f"{HEAD}, encrypt, length"

    def __init__(self, **parts: str) -> None:
        self.__dict__.update(parts)

    def made(self, path: Path, texts: Iterable[str], *options: str) -> Path:
        """Make a shared library of it."""
        return assembled(path, self.parts(texts), *options)

    def parts(self, texts: Iterable[str]) -> Iterable[str]:
        """Yield its assembly; the methods have the symbols that rustc gives them, too."""
        yield from (*strings([]), "path:", *strings(texts))
        for name in ("encrypt", "length", "decrypt", "inner"):
            yield function(name, getattr(self, name))
        for name, symbol in _SYMBOLS.items():
            yield f'.type "{symbol}",@function\n.set "{symbol}", {name}'
        yield from ('.section .data.rel.ro, "aw"', ".p2align 3")
        yield from (self.decrypter, self.between, self.encrypter)
        yield from (".quad inner", "slot: .quad inner")
