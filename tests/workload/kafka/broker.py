"""A broker of Kafka, alone, in KRaft mode."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.workload.ports import free_port, listening

_LIBRARIES = Path(__file__).resolve().parents[3] / ".cache" / "kafka"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class Broker(NamedTuple):
    """A running broker, where it is (``HOST:PORT``), and the folder of its data."""

    process: "subprocess.Popen[bytes]"
    address: str
    data: Path

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(30)
        while name not in admin.list_topics(timeout=30).topics:
            time.sleep(0.05)

    def wait_for_group(self, name: str, topic: str) -> None:
        """Wait until the broker coordinates a group: one that has just begun does not yet."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": name})
        try:
            for _ in range(300):
                with contextlib.suppress(KafkaException):
                    consumer.committed([TopicPartition(topic, 0)], timeout=1)
                    return
                time.sleep(0.1)
            raise TimeoutError(f"the broker does not coordinate the group {name}")
        finally:
            consumer.close()

    def topic_bytes(self, name: str) -> int:
        """Return how large the messages of a topic are, with what the broker adds."""
        return sum(log.stat().st_size for log in self.data.glob(f"{name}-*/*.log"))


@contextlib.contextmanager
def running_broker() -> Iterator[Broker]:
    """Run a broker without topics."""
    with contextlib.ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="sslsniff-kafka-")))
        port, controller = free_port(), free_port()
        settings = folder / "server.properties"
        settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
        java = [shutil.which("java") or "java", "-cp", f"{_LIBRARIES}/*"]
        identity = subprocess.check_output([*java, "kafka.tools.StorageTool", "random-uuid"])
        storage = ["kafka.tools.StorageTool", "format", "-t", identity.decode().split()[-1]]
        subprocess.run([*java, *storage, "-c", settings], check=True, stdout=subprocess.DEVNULL)
        options = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC"]
        command: list[str | Path] = [java[0], *options, *java[1:], "kafka.Kafka", settings]
        environment = {**os.environ, "LOG_DIR": str(folder)}
        process = closing.enter_context(listening(command, port, environment))
        yield Broker(process, f"127.0.0.1:{port}", folder / "data")
