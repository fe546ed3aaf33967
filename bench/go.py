"""What a call of Go's crypto/tls costs under sslsniff, and under eCapture if it is on the PATH."""

import shutil
from collections.abc import Iterator

from bench.loads import GoMessages, MessageLoad, own_folder
from bench.peers import Ecapture
from bench.rows import Row
from bench.watches import Sslsniff, Watch, compare

_MESSAGES = {64: 60_000, 1024: 60_000, 16384: 15_000}


class _EcaptureGo(Ecapture):
    """eCapture's module for Go."""

    def command(self, program: MessageLoad) -> tuple[list[str], dict[str, str]]:
        """See ``Ecapture``."""
        return ["ecapture", "gotls", "-m", "text", f"--elfpath=/proc/{program.pid}/exe"], {}


def measure() -> Iterator[Row]:
    """Let a Go program send while nobody, sslsniff and eCapture watch; compare."""
    with own_folder() as (folder, certificate):
        sslsniff = Sslsniff(folder)
        peers = [_EcaptureGo(folder)] if shutil.which("ecapture") else []
        watches: list[Watch] = [sslsniff, *peers]
        with GoMessages(folder, certificate) as program:
            costs = compare(program, watches, _MESSAGES)
    for size in _MESSAGES:
        ours = costs[sslsniff.name, size]
        note = f"{sslsniff.lost_bytes} bytes of all sizes lost"
        yield Row(f"Go, {size} B: rate left", 100 * ours.rate, "%", note=note)
        yield Row(f"Go, {size} B: added to a call", ours.added_us, "us")
        for watch in peers:
            ratio = costs[watch.name, size].added_us / ours.added_us
            yield Row(f"Go, {size} B: {watch.name} adds", ratio, "times", least=4)
