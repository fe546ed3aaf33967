"""The builds of each release in the matrix."""

from collections.abc import Iterator

from tests.workload.boringssl.builds import Build, Frames

_COMPILERS = ("gcc", "clang")
_LEVELS = ("O2", "O3", "Os", "Oz")
_IN_SECTIONS = ("O3", "Oz")
_BY_POINTERS = ("O2", "Os")
_HARDENED = ("-fstack-protector-strong", "-fcf-protection=full", "-D_FORTIFY_SOURCE=2")


def _builds() -> Iterator[Build]:
    for compiler in _COMPILERS:
        for level in _LEVELS:
            for frames in (Frames.ALL, Frames.NONE):
                build = Build(compiler, level, frames=frames, sections=level in _IN_SECTIONS)
                yield build
                yield build._replace(lto=True)
        usual = Build(compiler, "O2")
        yield usual._replace(frames=Frames.NOT_MAIN, sections=True)  # as in Chromium
        yield usual._replace(frames=Frames.NONE, sections=True, fixed=True)  # as in Bun
        yield usual._replace(more=("-fno-omit-frame-pointer",))
        yield usual._replace(frames=Frames.NONE, more=_HARDENED)
        for level in _BY_POINTERS:
            yield Build(compiler, level, frames=Frames.NONE, by_pointers=True)


BUILDS = tuple(_builds())
EXAMPLES = tuple(
    Build(compiler, level, frames=frames)
    for compiler in _COMPILERS
    for level, frames in (("O2", Frames.ALL), ("Os", Frames.NONE))
)
"""The builds of which damaged copies are made."""
