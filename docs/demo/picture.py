"""``python -m docs.demo.picture``: the picture in README, of a real run of the demo."""

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

_PICTURE = Path(__file__).with_name("picture.svg")
_COLUMNS = 96
_BEGIN, _END = "$ ", "What you saw"  # between the story and what the demo suggests
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich has a font loaded from elsewhere; any monospaced one will do."""


def main() -> None:
    """Run the demo on a terminal of its own, and draw what is seen there."""
    run = f"stty cols {_COLUMNS}; {sys.executable} -m docs.demo.run"
    command = ["script", "-qec", run, "/dev/null"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = seen[seen.index(_BEGIN) : seen.index(_END)].replace("\r", "").rstrip()
    with Path("/dev/null").open("w") as nowhere:
        console = Console(width=_COLUMNS, record=True, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(shown), soft_wrap=True)
    picture = console.export_svg(title="sslsniff")
    _PICTURE.write_text(_FONT.sub("", picture), "utf-8")


if __name__ == "__main__":
    main()
