"""Through a real broker: what is written, what consumers find together, and what goes wrong."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Consumer, TopicPartition
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sslsniff.destinations.missing_packages import how_to_install
from sslsniff.files.kafka import schema
from tests.workload.kafka.broker import Broker, running_broker
from tests.workload.kafka.consumers import consumers, exchanges_in
from tests.workload.otlp_agent import running_agent
from tests.workload.packets import interleaved, write_capture
from tests.workload.ports import free_port

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[4]
PCAPS = sorted((ROOT / "pcaps").glob("*.pcapng"))
SSLSNIFF = [sys.executable, "-m", "sslsniff"]
PATIENCE_S = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W", "-", request.node.name)
    broker.create_topic(name, 4)
    return name


def run(*arguments: str | Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [*SSLSNIFF, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def write(broker: Broker, topic: str, capture: Path, *options: str) -> str:
    done = run("read", capture, "--kafka", broker.address, "--topic", topic, *options)
    assert done.stdout == ""
    return done.stderr


def decode(
    broker: Broker, topic: str, *options: str | Path, group: str = "all"
) -> "subprocess.CompletedProcess[str]":
    where = ("--kafka", broker.address, "--topic", topic, "--group", group)
    return run("decode", *where, "--until-end", *options)


@pytest.fixture
def capture_in_topic(broker: Broker, topic: str, tmp_path: Path) -> Path:
    """Return a capture of 6,000 exchanges whose plaintext is in the topic."""
    capture = tmp_path / "c.pcap"
    write_capture(capture, interleaved(40, 150))
    write(broker, topic, capture, "--raw", "--no-redact")
    return capture


def messages(broker: Broker, topic: str) -> list[tuple[str, bytes]]:
    """Return all messages of a topic of 4 partitions, with their keys."""
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "test"})
    found: list[Any] = []
    for number in range(4):
        partition = TopicPartition(topic, number, 0)
        _, end = reader.get_watermark_offsets(partition, 30)
        reader.assign([partition])
        found += [reader.poll(30) for _ in range(end)]
    reader.close()
    return [(message.key().decode(), message.value()) for message in found]


@pytest.mark.parametrize("capture", PCAPS, ids=lambda path: path.stem)
def test_decoded_elsewhere_is_what_was_captured(
    capture: Path, broker: Broker, topic: str, tmp_path: Path
) -> None:
    said = write(broker, topic, capture, "--raw", "--no-redact")
    assert re.search(rf"Kafka's topic {topic}: \d+ delivered, 0 dropped", said)
    lines, here = tmp_path / "lines", tmp_path / "here"
    decode(broker, topic, "--json", "-o", lines)
    run("read", capture, "--json", "-o", here)
    assert exchanges_in(lines) == exchanges_in(here)
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    [connection] = {line["connection"] for line in found if "connection" in line}
    machine = connection.partition("/")[0]
    assert {line.get("machine") for line in found[:-1]} == {machine}
    places = [line["place"] for line in found if line["type"] == "exchange"]
    assert all(re.fullmatch(rf"{topic}/\d/\d+/\d+", place) for place in places)
    assert len({*places}) == len(places)
    again = decode(broker, topic, "--json").stdout.splitlines()
    assert [json.loads(line)["exchanges"] for line in again] == [0]


def test_secrets_are_blanked_before_they_leave(broker: Broker, topic: str, tmp_path: Path) -> None:
    capture = ROOT / "pcaps" / "http1-keep-alive.pcapng"
    write(broker, topic, capture, "--raw", "--no-redact")
    write(broker, topic, capture, "--raw", "--redact-pattern", "bytes/[0-9]+")
    sent = [b"/bytes/3000" in value for _, value in messages(broker, topic)]
    assert sum(sent) == 1
    assert len(sent) == 2


def test_text_names_the_machine(broker: Broker, topic: str) -> None:
    write(broker, topic, PCAPS[0], "--raw")
    [first, *_] = decode(broker, topic).stdout.splitlines()
    assert re.search(r"curl\[\d+] on \S+ ", first)


def test_a_filter(broker: Broker, topic: str) -> None:
    write(broker, topic, PCAPS[0], "--raw")
    found = decode(broker, topic, "~u bytes/3000", "--json").stdout.splitlines()
    urls = [json.loads(line)["request"]["url"] for line in found if '"exchange"' in line]
    assert urls
    assert all(url.endswith("/bytes/3000") for url in urls)


def test_tables_and_spans(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Each exchange once in each output, with the name of the machine; a span's id is its own."""
    for capture in PCAPS:
        write(broker, topic, capture, "--raw")
    wanted = len(decode(broker, topic, group="text").stdout.splitlines()) - 1
    folder = tmp_path / "tables"
    spans: list[Span] = []
    for group in ("one", "two"):
        with running_agent() as agent:
            url = agent.urls["grpc"]
            options = ("--otlp", url, "--otlp-protocol", "grpc", "--parquet", folder / group)
            decode(broker, topic, *options, group=group)
            agent.received.wait_for(wanted, PATIENCE_S)
            spans += [span for _, span in agent.received.spans]
            hosts = {resource["host.name"] for resource, _ in agent.received.spans}
    assert len(hosts) == 1
    assert len(spans) == 2 * len({span.span_id for span in spans}) == 2 * wanted
    rows = duckdb.execute(
        f"SELECT count(*), count(DISTINCT place), any_value(machine)"
        f" FROM read_parquet('{folder}/one/*/*/*.parquet')"
    ).fetchall()
    assert rows == [(wanted, wanted, hosts.pop())]


@pytest.mark.parametrize("kind", ["json", "protobuf"])
def test_exchanges(kind: str, broker: Broker, topic: str) -> None:
    """Each is a message, those of a connection in order and in one partition."""
    capture = ROOT / "pcaps" / "http2-multiplexed.pcapng"
    write(broker, topic, capture, "--kafka-format", kind)
    found = messages(broker, topic)
    assert len({key for key, _ in found}) == 1
    wanted = run("read", capture, "--json").stdout.splitlines()
    lines = [json.loads(line) for line in wanted if line.startswith('{"type":"exchange"')]
    if kind == "json":
        shown = [json.loads(value) for _, value in found]
        assert {key for key, _ in found} == {
            f"{each['machine']}/{each['connection']}" for each in shown
        }
        assert [{**line, "machine": shown[0]["machine"]} for line in lines] == shown
    else:
        exchanges = [schema.Exchange.FromString(value) for _, value in found]
        assert [each.url for each in exchanges] == [line["request"]["url"] for line in lines]
        headers = [{h.name: [*h.values] for h in each.response_headers} for each in exchanges]
        assert headers[0] == {
            name.lower(): [value] for name, value in lines[0]["response"]["headers"]
        }
        assert all(each.machine and each.response_body for each in exchanges)
        assert not exchanges[0].HasField("place")


def test_killed_and_added_consumers(
    broker: Broker, topic: str, capture_in_topic: Path, tmp_path: Path
) -> None:
    """Two are killed, two are added: each exchange is found, HTTP/2 joined late included."""
    here = tmp_path / "here.jsonl"
    run("read", capture_in_topic, "--json", "-o", here)
    wanted = exchanges_in(here)
    assert sum(wanted.exchanges.values()) == 6000
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    with consumers(SSLSNIFF, broker, topic, outputs) as running:
        running.start()
        running.start()
        for share in (0, 0.2):
            until_s = time.monotonic() + PATIENCE_S
            while running.written_bytes <= here.stat().st_size * share:
                assert time.monotonic() < until_s
                time.sleep(0.01)
            running.kill_one()
            running.start()
        running.wait(PATIENCE_S)
        found = running.found()
    assert found.exchanges == wanted.exchanges


@pytest.mark.usefixtures("capture_in_topic")
def test_nothing_is_shown_twice_where_a_consumer_was_asked_to_end(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    with consumers(SSLSNIFF, broker, topic, outputs) as running:
        first = running.start()
        until_s = time.monotonic() + PATIENCE_S
        while not running.written_bytes:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        first.send_signal(signal.SIGTERM)
        running.wait(PATIENCE_S)
        running.start()
        running.wait(PATIENCE_S)
        found = running.found()
    assert found.repeated == 0
    assert sum(found.exchanges.values()) == len(found.exchanges) == 6000


def test_messages_of_others_are_counted(broker: Broker, topic: str) -> None:
    write(broker, topic, PCAPS[0])
    done = decode(broker, topic)
    assert "messages that are not of --kafka --raw: " in done.stderr
    assert done.stdout.startswith("0 exchanges")


def test_a_broker_that_stops_for_a_while(broker: Broker, topic: str, tmp_path: Path) -> None:
    capture = tmp_path / "c.pcap"
    write_capture(capture, interleaved(20, 500))
    where = ("--kafka", broker.address, "--topic", topic, "--raw")
    broker.process.send_signal(signal.SIGSTOP)
    try:
        with subprocess.Popen(
            [*SSLSNIFF, "read", capture, *where], stderr=subprocess.PIPE, text=True
        ) as process:
            time.sleep(4)
            assert process.poll() is None
            broker.process.send_signal(signal.SIGCONT)
            _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        broker.process.send_signal(signal.SIGCONT)
    assert re.search(r"[1-9]\d* delivered, 0 dropped", said)
    assert decode(broker, topic).stdout.splitlines()[-1].startswith("10000 exchanges")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--topic", "absent"), "sslsniff: Kafka has no topic absent: create it, or name another"),
        ((), "--topic TOPIC is missing"),
    ],
)
def test_a_topic_that_is_not_there(options: tuple[str, ...], said: str, broker: Broker) -> None:
    where = ("--kafka", broker.address, "--group", "g", "--until-end", *options)
    done = run("decode", *where, code=1 if options else 2)
    assert said in done.stderr


def test_without_a_broker() -> None:
    address = f"127.0.0.1:{free_port()}"
    where = ("--kafka", address, "--topic", "t")
    done = run("decode", *where, "--group", "g", "--until-end", code=1)
    assert done.stderr.startswith(f"sslsniff: cannot reach Kafka at {address}: ")
    assert done.stderr.endswith(": see that it runs there\n")


@pytest.mark.parametrize("package", ["confluent_kafka", "google.protobuf"])
@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("--kafka", ("read", str(PCAPS[0]), "--kafka", "a:1", "--topic", "t")),
        ("decode", ("decode", "--kafka", "a:1", "--topic", "t", "--group", "g")),
    ],
)
def test_without_a_package(package: str, what: str, arguments: tuple[str, ...]) -> None:
    script = (
        f"import sys; sys.modules['{package}'] = None;"
        " from sslsniff.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"sslsniff: {what} needs the package confluent-kafka: {how_to_install('kafka')}\n"
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("acks=maybe", "Kafka: Invalid value for configuration property"),
        ("colour=red", 'Kafka: No such configuration property: "colour"'),
    ],
)
def test_a_wrong_setting(lines: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(lines)
    where = ("--kafka", "127.0.0.1:9", "--topic", "t", "--kafka-properties", str(file))
    done = run("read", PCAPS[0], *where, code=1)
    assert done.stderr.startswith(f"sslsniff: {said}")
    assert done.stderr.endswith(": mend the settings\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kafka", "a:1"), "--kafka needs a topic: --topic TOPIC"),
        (("--topic", "t"), "--topic needs --kafka BROKERS"),
        (("--raw",), "--raw needs --kafka BROKERS"),
        (
            ("--kafka", "a:1", "--topic", "t", "--raw", "--kafka-format", "protobuf"),
            "--raw has a format of its own: leave out --kafka-format",
        ),
        (("--kafka", "a:1", "--topic", "t", "--jobs", "2"), "leave out --kafka"),
    ],
)
def test_usage(options: tuple[str, ...], said: str) -> None:
    assert said in run("read", PCAPS[0], *options, code=2).stderr


def test_tables_are_in_few_files(broker: Broker, topic: str, tmp_path: Path) -> None:
    """While a consumer goes on, a file is as old as ``--parquet-seconds`` says."""
    write(broker, topic, PCAPS[0], "--raw")
    where = ("--kafka", broker.address, "--topic", topic, "--group", "all")
    command = [*SSLSNIFF, "decode", *where, "--parquet", str(tmp_path / "tables")]
    command += ["--end-within", str(PATIENCE_S)]  # on a busy machine, closing a file takes longer
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        time.sleep(6)
        assert not [*(tmp_path / "tables").glob("*/*/*.parquet")]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "3 exchanges" in said
    assert len([*(tmp_path / "tables").glob("*/*/*.parquet")]) == 1


@pytest.mark.usefixtures("capture_in_topic")
def test_what_there_was_no_time_for_is_found_again(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A consumer that stands still gets a second at its end: nothing is lost by that."""
    where = ("--kafka", broker.address, "--topic", topic, "--group", "all", "--json")
    outputs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    first = ("--commit-every", "60", "--end-within", "1", "-o", outputs[0])
    with subprocess.Popen([*SSLSNIFF, "decode", *where, *first], cwd=ROOT) as process:
        time.sleep(4)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        process.wait(PATIENCE_S)
    run("decode", *where, "--until-end", "-o", outputs[1])
    found = exchanges_in(*outputs)
    assert sum(found.exchanges.values()) == len(found.exchanges) == 6000
