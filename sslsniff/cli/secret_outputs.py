"""``--keylog`` and ``--packets``: opens and ends files with secrets of connections."""

import contextlib

from sslsniff import __version__
from sslsniff.capture.key_log_probes import KeyLogProbes
from sslsniff.capture.options import LOADER, PID
from sslsniff.cli.printing import note
from sslsniff.core.errors import KernelError, OutputError
from sslsniff.core.sink import Sink
from sslsniff.destinations.options import FORCE
from sslsniff.destinations.output_files import open_output
from sslsniff.kernel.loaders.loading import has_cookies
from sslsniff.kernel.packets.packet_socket import PacketSocket, has_same_network
from sslsniff.outputs.keylog.key_log_file import KeyLogFile
from sslsniff.outputs.keylog.missing_secrets import MissingSecrets
from sslsniff.outputs.keylog.options import KEYLOG
from sslsniff.outputs.packets.connection_packets import ConnectionPackets
from sslsniff.outputs.packets.options import PACKETS
from sslsniff.settings.asked import Asked


class SecretOutputs:
    """What is ``asked`` for; at least one of the files.

    ``first``: how many other functions are probed. ``probes`` see the secrets. Packets wait in the
    kernel from now on. Raises ``KernelError`` and ``OutputError``.
    """

    def __init__(self, asked: Asked, first: int, closing: contextlib.ExitStack) -> None:
        self._asked = asked
        if not has_cookies(asked[LOADER]):
            raise KernelError("secrets need Linux 5.15", "leave out --keylog and --packets")
        packets = asked[PACKETS]
        if packets and not packets.endswith(".pcapng"):
            raise OutputError("packets with their secrets are a pcapng", "name it FILE.pcapng")
        self.probes = KeyLogProbes(first)
        self._source = PacketSocket() if packets else None
        if self._source is not None:
            closing.callback(self._source.close)
            for pid in asked[PID]:
                if not has_same_network(pid):
                    note(
                        f"packets of process {pid} are not recorded: it is in another network"
                        f" namespace; start sslsniff by nsenter --net --target {pid}"
                    )
        self._key_log: KeyLogFile | None = None
        self._packets: ConnectionPackets | None = None

    def open(self, closing: contextlib.ExitStack) -> Sink:
        """Open the files; return what says which secrets are missing. Raises ``OutputError``."""
        key_log, packets = self._asked[KEYLOG], self._asked[PACKETS]
        force = self._asked[FORCE]
        if key_log is not None:
            file = closing.enter_context(open_output(key_log, force=force))
            self._key_log = KeyLogFile(file, key_log)
            self.probes.writers.append(self._key_log.write)
        if self._source is not None and packets is not None:
            from sslsniff.files.pcapng import PcapngWriter

            file = closing.enter_context(open_output(packets, force=force))
            writer = PcapngWriter(file, f"sslsniff {__version__}", "Linux", "")
            self._packets = ConnectionPackets(self._source, writer, packets)
            closing.callback(self._packets.close)
            self.probes.writers.append(self._packets.write)
        return MissingSecrets(self.probes.missing, note)

    def start(self) -> None:
        """Begin to receive packets, with the rights that are left."""
        if self._packets is not None:
            self._packets.start()

    def finish(self, lost: int) -> None:
        """Write the rest, and note what was written; ``lost``: how many secrets were not seen."""
        if self._key_log is not None:
            note(self._key_log.describe(lost + self.probes.unreadable))
        if self._packets is not None:
            self._packets.close()
            note(self._packets.describe())
