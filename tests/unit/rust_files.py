"""Small ELF files with functions that are named as rustc names them, made by gcc."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

TLS13_ENCRYPT = (
    "_ZN111_$LT$rustls..crypto..ring..tls13..Tls13MessageEncrypter$u20$as$u20$"
    "rustls..crypto..cipher..MessageEncrypter$GT$7encrypt17hf50ea5a5e8fed3dcE"
)
TLS13_DECRYPT = (
    "_ZN111_$LT$rustls..crypto..ring..tls13..Tls13MessageDecrypter$u20$as$u20$"
    "rustls..crypto..cipher..MessageDecrypter$GT$7decrypt17h073c792f9d7e16c6E"
)
TLS13_ENCRYPT_V0 = (
    "_RNvXs2_NtNtNtCs8JUZiGqdiQK_6rustls6crypto4ring5tls13NtB5_21Tls13MessageEncrypter"
    "NtNtB9_6cipher16MessageEncrypter7encrypt"
)
OLD_ENCRYPT = (
    "_ZN95_$LT$rustls..tls12..cipher..GcmMessageEncrypter$u20$as$u20$"
    "rustls..cipher..MessageEncrypter$GT$7encrypt17hf70f7a8c0f1c78d3E"
)
INVALID_ENCRYPT = (
    "_ZN108_$LT$rustls..crypto..cipher..InvalidMessageEncrypter$u20$as$u20$"
    "rustls..crypto..cipher..MessageEncrypter$GT$7encrypt17h92b4c141605fa158E"
    ".llvm.17088736631612458854"
)
OWN_ENCRYPT = (
    "_ZN87_$LT$own_provider..aead..Sealer$u20$as$u20$"
    "rustls..crypto..cipher..MessageEncrypter$GT$7encrypt17h92b4c141605fa158E"
)
CLOSURE = (
    "_ZN111_$LT$rustls..crypto..ring..tls13..Tls13MessageEncrypter$u20$as$u20$"
    "rustls..crypto..cipher..MessageEncrypter$GT$7encrypt28_$u7b$$u7b$closure$u7d$$u7d$"
    "17hf50ea5a5e8fed3dcE"
)
RECORD_ENCRYPT = (
    "_ZN100_$LT$rustls_ring..tls13..Tls13RecordEncrypter$u20$as$u20$"
    "rustls..crypto..cipher..RecordEncrypter$GT$7encrypt17h61a775e678bf9e05E"
)
RECEIVED = "_ZN6rustls12common_state11CommonState23take_received_plaintext17h9cdb5e78c8aa2a2aE"
EARLY_RECEIVED = (
    "_ZN6rustls6server11server_conn14EarlyDataState23take_received_plaintext17h9cdb5e78c8aa2a2aE"
)

LEAVES_BY_JUMP = "jmp abort@PLT"
LEAVES_BY_RETURN = "ret"


def made(
    path: Path, functions: Iterable[str], texts: Iterable[str] = (), *, body: str = "ret"
) -> Path:
    """Make a shared library with these functions, each of the instructions ``body``.

    ``texts`` are in .rodata, side by side as rustc puts them.
    """
    return assembled(path, [*strings(texts), *(function(each, body) for each in functions)])


def assembled(path: Path, parts: Iterable[str], *options: str) -> Path:
    """Make a shared library of assembly."""
    source = "\n".join([*parts, '.section .note.GNU-stack,"",@progbits', ""])
    command = ["gcc", "-shared", "-x", "assembler", "-", "-o", str(path), *options]
    subprocess.run(command, input=source.encode(), check=True)
    return path


def strings(texts: Iterable[str]) -> list[str]:
    return [".section .rodata", *(f'.ascii "{each}"' for each in texts)]


def function(name: str, body: str) -> str:
    """Return the assembly of a function that the unwind table has, too."""
    return (
        f'.text\n.type "{name}",@function\n"{name}": .cfi_startproc\n{body}\n.cfi_endproc\n'
        f'.size "{name}", . - "{name}"'
    )


def source_path(release: str, file: str = "conn.rs") -> str:
    """Return a source path as panics tell it."""
    return f"/home/builder/.cargo/registry/src/index.crates.io-6f17/rustls-{release}/src/{file}"
