"""Watches a command by a library that is preloaded into it."""

import contextlib
import shutil
import sys
from pathlib import Path

from sslsniff.commands.chosen_sinks import check_outputs, open_sinks
from sslsniff.commands.ending import CaptureControl
from sslsniff.commands.held_command import HeldCommand
from sslsniff.commands.options.watch_options import WatchOptions
from sslsniff.commands.printing import note
from sslsniff.commands.pump import pump
from sslsniff.errors import KernelError
from sslsniff.kernel import privileges
from sslsniff.kernel.memory.shared_ring import SharedRing
from sslsniff.live.preload.preload_capture import PreloadCapture
from sslsniff.live.preload.preload_environment import preload_environment
from sslsniff.live.preload.unseen_libraries import UnseenLibraries
from sslsniff.sinks.filters import Filter


def watch_preloaded(
    options: WatchOptions, expression: Filter | None, control: CaptureControl
) -> int:
    """Start the command and watch it; return its exit code. Raises ``SslsniffError``."""
    try:
        ring = SharedRing(options.ring_size, options.max_call_bytes)
    except OSError as error:
        raise KernelError(
            f"cannot make memory of {options.ring_size} bytes ({error.strerror})",
            "try a smaller --ring-size",
        ) from error
    held = HeldCommand(options.command, preload_environment(ring.path))
    check_outputs(options, sys.stderr)
    unseen = UnseenLibraries(note)
    if (program := shutil.which(options.command[0])) is not None:
        unseen.look_at_program(str(Path(program).resolve()))
    capture = PreloadCapture(
        ring,
        held.pid,
        ring_bytes=options.ring_size,
        note=note,
        unseen=unseen,
        sample=options.sample,
        most_cpu=options.most_cpu,
    )
    with contextlib.closing(capture), contextlib.ExitStack() as closing:
        held.release()
        # Only now: an earlier error must not leave or overwrite a file.
        sinks = open_sinks(options, sys.stderr, closing, control.stop, expression, capture=capture)
        # It looks which programs run, root's too, and reads them.
        privileges.drop_all(but=("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"))
        pump(capture, sinks, options, control)
    code = held.finish(control.is_drained)
    control.done()
    return code
