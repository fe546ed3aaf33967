"""Where breakpoints are: a process's memory compared with the files that it maps."""

import re
import time
from pathlib import Path

from sslsniff.kernel.loaders import loading
from sslsniff.matching.probe_set import Attachment, ReturnStyle
from tests.live.sniffer import LOADER
from tests.planned import plan_file
from tests.workload.processes import PATIENCE_S

_TEXT = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ (\d+) +/", re.MULTILINE)


def breakpoints(pid: int, library: Path) -> set[int]:
    """Return the file offsets at which a process's copy of the library's code differs from it."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    inode = str(library.stat().st_ino)  # a process outside of a chroot has other paths
    places = [match for match in _TEXT.findall(maps) if match[3] == inode]
    assert places, f"{library} is not mapped by process {pid}"
    contents = library.read_bytes()
    found = set()
    for start, end, offset, _ in places:
        first, size = int(offset, 16), int(end, 16) - int(start, 16)
        with Path(f"/proc/{pid}/mem").open("rb") as memory:
            memory.seek(int(start, 16))
            code = memory.read(size)
        pairs = zip(code, contents[first : first + size], strict=False)  # the last page is padded
        found |= {first + index for index, (here, there) in enumerate(pairs) if here != there}
    return found


def wait_probed(pid: int, library: Path) -> None:
    """Wait until all probes are in a process's copy of the library."""
    has_cookies = loading.has_cookies(LOADER)
    style = ReturnStyle.INSTRUCTIONS if has_cookies else ReturnStyle.PLAIN_INSTRUCTIONS
    plan = plan_file(str(library), style)
    assert isinstance(plan, Attachment)
    wanted = {probe.offset for probe in plan.probes}
    deadline = time.monotonic() + PATIENCE_S
    while breakpoints(pid, library) != wanted:
        assert time.monotonic() < deadline
        time.sleep(0.02)
