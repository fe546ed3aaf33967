"""``sslsniff agent``: runs a capture, watches over it, and starts it anew when its file changed."""

import os
import selectors
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import Any

import orjson

from sslsniff.cli.agent.configuration import Configuration, read
from sslsniff.cli.agent.disk_limit import DiskLimit
from sslsniff.cli.agent.service_manager import ServiceManager
from sslsniff.cli.ending import handle_unless_ignored
from sslsniff.cli.options.other_options import AGENT, CONFIG, DRY_RUN
from sslsniff.cli.printing import note
from sslsniff.core.errors import ConfigurationError, SslsniffError, counted
from sslsniff.destinations.inherited import STATUS_TO, environment_with
from sslsniff.destinations.missing_packages import how_to_install
from sslsniff.kernel import privileges
from sslsniff.screen.captured.capture_process import own_command

_WAIT_S = 0.5
_END_S = 10.0
_DISK_CHECK_S = 10.0
_SILENT_S = 30.0
"""A capture that says nothing for so long hangs."""
_SILENT_AT_START_S = 300.0
"""It first reads the files that are in use, which may be many and large."""
_MOST_LINE_BYTES = 1 << 20


def agent(arguments: Sequence[str]) -> int:
    """Run an agent until a signal ends it; return the exit code. Raises ``SslsniffError``."""
    asked = AGENT.parse(arguments)
    configuration = read(asked[CONFIG])
    if asked[DRY_RUN]:
        _describe(configuration)
        return 0
    privileges.require()
    return _Agent(asked[CONFIG], configuration).run()


def _describe(configuration: Configuration) -> None:
    """Print what an agent would do."""
    print("sslsniff", *configuration.arguments)
    for what, size in (
        ("memory", configuration.memory_bytes),
        ("tables on disk", configuration.disk_bytes),
    ):
        if size is not None:
            print(f"limit of {what}: {size / (1 << 20):,.0f} MiB")
    if configuration.health is not None:
        print("health: http://{}:{}/metrics".format(*configuration.health))


class _Capture:
    """A running capture, another process; ``status`` is what it said last."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.status: dict[str, Any] = {}
        self.said_s = time.monotonic()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self.fd = reading
        self._rest = b""
        self._process = subprocess.Popen(
            own_command(arguments),
            stdin=subprocess.DEVNULL,
            env=environment_with(STATUS_TO, writing),
            pass_fds=(writing,),
        )
        os.close(writing)

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def receive(self) -> bool:
        """Receive what it says now; return whether that is a new ``status``."""
        try:
            data = self._rest + os.read(self.fd, _MOST_LINE_BYTES)
        except BlockingIOError:
            return False
        *lines, self._rest = data.split(b"\n")
        if not lines:
            return False
        self.status = orjson.loads(lines[-1])
        self.said_s = time.monotonic()
        return True

    def end(self) -> None:
        """End it: what it has is written."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.fd)


class _Agent:
    """Runs one capture after the other."""

    def __init__(self, path: str, configuration: Configuration) -> None:
        self._path = path
        self._configuration = configuration
        self._to_stop = self._to_reload = False
        self._manager = ServiceManager()
        self._restarts: Counter[str] = Counter()
        self._capture: _Capture | None = None
        self._disk: DiskLimit | None = None
        self._disk_checked_s = 0.0

    def run(self) -> int:
        """Run until the user or the system asks for the end; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        handle_unless_ignored(signal.SIGHUP, self._reload)  # nohup ignores it
        if self._configuration.health is not None:
            self._serve_health(self._configuration.health)
        while not self._to_stop:
            code = self._run_capture()
            if code is not None:
                note(f"the capture ended by itself, with {code}")
                return code or 1
        self._manager.stopping()
        return 0

    def _serve_health(self, address: tuple[str, int]) -> None:
        try:
            from sslsniff.cli.agent.health import serve_health
        except ImportError:
            raise ConfigurationError(
                "health.listen needs the package prometheus-client",
                how_to_install("agent"),
            ) from None
        serve_health(address, self._status, lambda: self._restarts)

    def _status(self) -> dict[str, Any]:
        return self._capture.status if self._capture is not None else {}

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._to_stop = True

    def _reload(self, _number: int, _frame: FrameType | None) -> None:
        self._to_reload = True

    def _run_capture(self) -> int | None:
        """Run a capture until another is to follow; return its exit code if it ended by itself."""
        configuration = self._configuration
        self._disk = None
        if configuration.tables is not None and configuration.disk_bytes is not None:
            self._disk = DiskLimit(configuration.tables, configuration.disk_bytes)
        capture = self._capture = _Capture(configuration.arguments)
        is_ready = False
        with selectors.DefaultSelector() as selector:
            selector.register(capture.fd, selectors.EVENT_READ)
            while not self._to_stop:
                selector.select(_WAIT_S)
                if capture.code is not None:
                    os.close(capture.fd)
                    return capture.code
                if capture.receive():
                    tell = self._manager.alive if is_ready else self._manager.ready
                    is_ready = True
                    tell(_summary(capture.status))
                if self._is_to_restart(capture):
                    break
                self._apply_disk_limit()
        self._capture = None
        capture.end()
        return None

    def _is_to_restart(self, capture: _Capture) -> bool:
        """Return whether another capture is to follow, and say why."""
        most_bytes = self._configuration.memory_bytes
        used_bytes = capture.status.get("memory_bytes", 0)
        if self._to_reload:
            self._to_reload = False
            return self._read_again()
        if most_bytes is not None and used_bytes > most_bytes:
            note(f"memory: {used_bytes:,} bytes, more than limits.memory: the capture begins anew")
            self._restarts["memory"] += 1
            return True
        silent_s = _SILENT_S if capture.status else _SILENT_AT_START_S
        if time.monotonic() - capture.said_s > silent_s:
            note(f"the capture has not answered for {silent_s:.0f} s: another begins")
            self._restarts["silent"] += 1
            return True
        return False

    def _read_again(self) -> bool:
        """Read the file again; if it is wrong, say so, and go on as before."""
        self._manager.reloading()
        before = self._configuration
        try:
            self._configuration = read(self._path)
        except SslsniffError as error:
            note(f"{error}; the capture goes on as it was")
            self._manager.ready("the file is wrong: the capture goes on as it was")
            return False
        note(f"{self._path} was read again")
        if self._configuration.health != before.health:
            note("health.listen changed: that takes effect when the agent is started again")
        self._restarts["reload"] += 1
        return True

    def _apply_disk_limit(self) -> None:
        now_s = time.monotonic()
        if self._disk is None or now_s - self._disk_checked_s < _DISK_CHECK_S:
            return
        self._disk_checked_s = now_s
        freed = self._disk.apply()
        if freed:
            note(f"tables: the oldest removed, {freed:,} bytes, for limits.disk")


def _summary(status: dict[str, Any]) -> str:
    lost = sum(status["lost_bytes"].values())
    return (
        f"{counted(status['exchanges'], 'exchange')} of"
        f" {counted(status['connections'], 'connection')},"
        f" {counted(lost, 'byte')} lost, {counted(status['probes'], 'probe')}"
    )
