"""An end in time: whatever a process does when a signal comes, it ends as if all were done."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sslsniff.cli.ending import _WRITERS

pytestmark = pytest.mark.slow

BEGIN = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may run the tests
from sslsniff.cli.ending import CaptureControl, OverdueError
control = CaptureControl(1)
control.before_exit = lambda: os.write(2, b"at last")
control.listen()
print("ready", file=sys.stderr, flush=True)
"""
WAIT = "while not control.to_stop: time.sleep(0.01)\n"


def end(script: str, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, float]:
    """Run a script, and ask for its end; return its code, what it says, and the seconds it took.

    Nobody reads its standard output.
    """
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        began_s = time.monotonic()
        process.send_signal(number)
        code = process.wait(60)
        return code, process.stderr.read(), time.monotonic() - began_s


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted(number: signal.Signals) -> None:
    code, said, _ = end(WAIT + "control.done(); time.sleep(1.5); os._exit(7)", number)
    assert (code, said) == (7, "")


@pytest.mark.heavy
def test_what_takes_long_is_left() -> None:
    code, said, took_s = end("while True: pass")
    assert (code, said) == (1, "at last")
    assert took_s > 0.6


@pytest.mark.heavy
def test_what_takes_long_is_abandoned_where_that_is_allowed() -> None:
    script = """
try:
    with control.abandonable():
        while True: pass
except OverdueError:
    control.done()
    os._exit(8 + control.is_drained())
"""
    code, said, _ = end(script)
    assert (code, said) == (9, "")


@pytest.mark.heavy
def test_what_is_written_is_not_abandoned() -> None:
    """It would be written once more."""
    for name in _WRITERS:
        __import__(name)
    script = """
write = {"__name__": "sslsniff.destinations.output_files"}
exec("def write():\\n  while True: pass", write)
with control.abandonable():
    write["write"]()
"""
    code, said, _ = end(script)
    assert (code, said) == (1, "at last")


def test_a_write_that_nobody_reads_goes_on() -> None:
    script = """
data = bytes(1 << 20)
while data:
    data = data[os.write(1, data):]
control.done()
os._exit(8 + control.output_replaced)
"""
    code, said, _ = end(script)
    assert (code, said) == (9, "")


def test_a_socket_that_listens_is_no_output() -> None:
    script = """
import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0" + str(os.getpid()))
listener.listen()
while not control.to_stop: time.sleep(0.01)
time.sleep(0.5)
os._exit(8 + control.output_replaced)
"""
    assert end(script)[:2] == (8, "")


def test_the_name_of_a_socket_is_no_output() -> None:
    """The engine without rights has one. Nothing is left open of what each tick looks at."""
    script = """
import socket, tempfile
listener = socket.socket(socket.AF_UNIX)
with tempfile.TemporaryDirectory() as folder:
    listener.bind(folder + "/name")
    name = os.open(folder + "/name", os.O_PATH)
before = os.listdir("/proc/self/fd")
while not control.to_stop: time.sleep(0.01)
time.sleep(0.4)
control.done()
os._exit(8 + control.output_replaced + 2 * (os.listdir("/proc/self/fd") != before))
"""
    assert end(script)[:2] == (8, "")


@pytest.mark.heavy
def test_a_read_that_waits_is_abandoned() -> None:
    read, write = os.pipe()
    script = f"""
try:
    with control.abandonable():
        open({read}, "rb", closefd=False).read(1)
except OverdueError:
    control.done()
    os._exit(8)
"""
    os.set_inheritable(read, True)
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + script], stderr=subprocess.PIPE, close_fds=False
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.terminate()
    assert process.wait(60) == 8
    process.stderr.close()
    for each in (read, write):
        os.close(each)


@pytest.mark.heavy
def test_without_a_signal_there_is_time() -> None:
    script = """
control.stop()
assert not control.is_drained() and not control.is_skipped()
time.sleep(1)
assert not control.is_drained()
os._exit(8)
"""
    done = subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (8, "ready\n")
