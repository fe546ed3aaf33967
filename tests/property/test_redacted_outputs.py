"""Secrets planted wherever a protocol has room for one are in no output of a redacted capture."""

import gzip
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sslsniff.cli.main import main
from tests.property.planted_bodies import BODIES, SECRET
from tests.property.planted_connections import DATABASES, PROTOCOLS
from tests.unit.captures import Step, Taker
from tests.unit.files.kafka.test_broker import messages
from tests.unit.redaction.test_redaction import dumped, forms
from tests.unit.redaction.traffic import cut
from tests.workload.kafka.broker import Broker, running_broker

pytestmark = pytest.mark.heavy

FORMS = [form for form in forms(SECRET.encode()) if form]
TEXTS = {
    "lines": ["-vv"],
    "json": ["--json", "--chunks", "--max-body", "1M"],
    "frames": ["--frames", "--json"],
    "hexdump": ["--hexdump"],
    "statistics": ["--stats", "--group-by", "host,path", "-q"],
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


def kafka_messages(read: list[str], broker: Broker, topic: str) -> bytes:
    """Return the messages of Kafka that one command writes."""
    broker.create_topic(topic, 4)
    assert main([*read, "--kafka", broker.address, "--topic", topic]) == 0
    return b"".join(value for _, value in messages(broker, topic))


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    """Run a receiver of OTLP; yield its address, and what came."""
    came: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers.get("Content-Encoding") == "gzip"
            came.append(gzip.decompress(data) if is_packed else data)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
            thread.join()


def write_capture(path: Path, data: st.DataObject) -> None:
    """Write a connection for each protocol with each body, in any pieces."""
    pieces = random.Random(data.draw(st.integers(0, 1 << 30)))
    taker = Taker(path)

    def take(steps: list[Step]) -> None:
        taker.take(cut(steps, pieces), alpn=None)

    for protocol in PROTOCOLS.values():
        for body in BODIES.values():
            take(data.draw(st.composite(lambda draw, p=protocol, b=body: p(draw, b(draw)))()))
    for database in DATABASES.values():
        take(data.draw(st.composite(database)()))
    taker.close()


def outputs(capture: Path, folder: Path, broker: Broker, *, redacts: bool) -> dict[str, bytes]:
    """Return what each output has, by name."""
    read = ["read", str(capture), *(["--redact"] if redacts else [])]
    leaving = read if redacts else [*read, "--no-redact"]  # the machine
    topic = f"{capture.parent.name}-{folder.name}"
    found = {
        "exchanges in Kafka": kafka_messages(leaving, broker, topic),
        "plaintext in Kafka": kafka_messages([*leaving, "--raw"], broker, f"{topic}-raw"),
    }
    for name, options in TEXTS.items():
        assert main([*read, *options, "--force", "-o", str(folder / "out")]) == 0
        text = (folder / "out").read_bytes()
        found[name] = text + dumped(text)
    with receiver() as (url, came):
        files = {each: folder / f"out.{each}" for each in ("har", "pcapng", "html", "tables")}
        command = [*leaving, "--har", str(files["har"]), "--pcap", str(files["pcapng"])]
        command += ["--report", str(files["html"]), "--report-bodies", "1M", "--otlp", url]
        command += ["--parquet", str(files["tables"]), "--parquet-bodies", "1M"]
        assert main([*command, "--otlp-protocol", "http/protobuf"]) == 0
    found["otlp"] = b"".join(came)
    tables = f"read_parquet('{files.pop('tables')}/*/*/*.parquet')"
    found["tables"] = str(duckdb.execute(f"SELECT * FROM {tables}").fetchall()).encode()
    return found | {name: path.read_bytes() for name, path in files.items()}


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.generate],  # to shrink so much takes longer than to read what failed
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_no_output_has_a_planted_secret(broker: Broker, data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        capture = Path(name, "capture.pcapng")
        write_capture(capture, data)
        redacted, shown = Path(name, "redacted"), Path(name, "shown")
        redacted.mkdir()
        shown.mkdir()
        for output, found in outputs(capture, redacted, broker, redacts=True).items():
            assert [form for form in FORMS if form in found] == [], output
        # The search would find them.
        for output, found in outputs(capture, shown, broker, redacts=False).items():
            assert output == "statistics" or any(form in found for form in FORMS), output
