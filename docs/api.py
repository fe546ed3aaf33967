"""Write pages about the library, from its docstrings, into build/api: ``make api``."""

from pathlib import Path

import pdoc

import sslsniff

_PAGES = Path(__file__).parents[1] / "build" / "api"


def main() -> None:
    """Write them. What the library has is imported when it is first used: here, all of it."""
    vars(sslsniff).update({name: getattr(sslsniff, name) for name in sslsniff.__all__})
    pdoc.pdoc("sslsniff", output_directory=_PAGES)


if __name__ == "__main__":
    main()
