"""Watches a command by a library that is preloaded into it."""

import contextlib
import shutil
import sys
from pathlib import Path

from sslsniff.capture.options import MAX_CALL_BYTES, MOST_CPU, RING_SIZE, SAMPLE
from sslsniff.cli.chosen_sinks import check_outputs, open_sinks
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.printing import note
from sslsniff.cli.pump import pump
from sslsniff.cli.started.held_command import HeldCommand
from sslsniff.core.errors import KernelError
from sslsniff.kernel import privileges
from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.preload.memory_limits import own_limit
from sslsniff.preload.preload_capture import PreloadCapture
from sslsniff.preload.preload_environment import preload_environment
from sslsniff.preload.unseen_libraries import UnseenLibraries
from sslsniff.settings.asked import Asked


def watch_preloaded(asked: Asked, control: CaptureControl) -> int:
    """Start the command and watch it; return its exit code. Raises ``SslsniffError``."""
    try:
        rings = RingSet(asked[RING_SIZE], asked[MAX_CALL_BYTES])
    except OSError as error:
        raise KernelError(
            f"cannot make memory to share with programs ({error.strerror})",
            "check that /tmp can be written to, or set TMPDIR",
        ) from error
    limit = own_limit(rings.size_bytes)
    found = shutil.which(asked.command[0])
    program = None if found is None else str(Path(found).resolve())
    environment = None if limit else preload_environment(rings.path, program)
    held = HeldCommand(asked.command, environment)
    check_outputs(asked, sys.stderr)
    unseen = UnseenLibraries(note)
    if limit:
        note(
            f"{limit}, and the preloaded library's memory would count: the command runs unwatched;"
            f" {unseen.remedy}"
        )
    if program is not None:
        unseen.look_at_program(program)
    capture = PreloadCapture(
        rings,
        held.pid,
        note=note,
        unseen=unseen,
        sample=asked[SAMPLE],
        most_cpu=asked[MOST_CPU],
    )
    with contextlib.closing(capture), contextlib.ExitStack() as closing:
        control.listen(has_command=True)
        held.release()
        # Only now: an earlier error must not leave or overwrite a file.
        sinks = open_sinks(asked, sys.stderr, closing, control.reader_gone, capture=capture)
        # It looks which programs run, root's too, and reads them.
        privileges.drop_all(but=("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"))
        is_whole = pump(capture, sinks, asked, control)
    control.done()
    return held.finish(control, is_whole=is_whole)
