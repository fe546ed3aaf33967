"""Messages inside HTTP as they come, of real peers over TLS, each one counted."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, wrappers_pb2

from tests.live.checks import Sniff, assert_whole, connections, content
from tests.live.sniffer import Captured
from tests.workload.processes import PATIENCE_S, PROGRAMS, Process, next_line, say, started
from tests.workload.python.websocket_echo import message
from tests.workload.servers import Certificate


@contextlib.contextmanager
def program(name: str, *arguments: str | Path) -> Iterator[Process]:
    with started(sys.executable, PROGRAMS / "python" / name, *arguments) as process:
        yield process


def of(captured: Captured, kind: str, role: str, direction: str) -> list[dict[str, Any]]:
    return [
        each for each in captured.of(kind) if (each["role"], each["direction"]) == (role, direction)
    ]


def data(each: dict[str, Any]) -> bytes:
    """Return a message's content; it must be whole."""
    assert (each["missing_bytes"], each["error"]) == (0, None)
    return content(each["data"])


def test_websocket(certificate: Certificate, sniff: Sniff) -> None:
    """Both ends, from the start: compressed, in fragments, a ping and a close."""
    with (
        program("websocket_echo.py", "server", certificate.certificate, certificate.key) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        port = next_line(server)
        with program("websocket_echo.py", "client", certificate.certificate, port) as client:
            assert next_line(client) == "connected"
            say(client, "40")
            assert next_line(client) == "done"
            sniffer.until(80, "message")  # while the connection is open
            client.communicate(timeout=PATIENCE_S)
            assert client.returncode == 0
        sniffer.until(84, "message")
        captured = sniffer.stop()

    sent = [each.encode() if isinstance(each, str) else each for each in map(message, range(40))]
    opcodes = ["binary" if number % 2 else "text" for number in range(40)]
    for direction, answer in (("read", "ping"), ("write", "pong")):
        told = of(captured, "message", "server", direction)
        assert [each["opcode"] for each in told] == [*opcodes, answer, "close"]
        assert [data(each) for each in told[:40]] == sent
        assert data(told[40]) == b"still there"
        assert (told[41]["code"], told[41]["reason"]) == (4000, "enough")
        assert {each["target"] for each in told} == {"/chat?room=1"}
        assert {each["compressed"] for each in told[:40]} == {True}
    assert [each["response"]["status"] for each in captured.exchanges] == [101]
    assert_whole(captured)


def test_websocket_joined_in_the_middle(certificate: Certificate, sniff: Sniff) -> None:
    """What is compressed by what was not seen is marked; all the rest is right, none is wrong."""
    with program("websocket_echo.py", "server", certificate.certificate, certificate.key) as server:
        port = next_line(server)
        with program("websocket_echo.py", "client", certificate.certificate, port) as client:
            assert next_line(client) == "connected"
            say(client, "6")
            assert next_line(client) == "done"
            with sniff("--pid", str(client.pid)) as sniffer:
                say(client, "40")
                assert next_line(client) == "done"
                client.communicate(timeout=PATIENCE_S)
                captured = sniffer.wait()

    sent = [each.encode() if isinstance(each, str) else each for each in map(message, range(40))]
    for direction in ("read", "write"):
        told = of(captured, "message", "client", direction)[:40]
        assert len(told) == 40
        unknown = [each["error"] is not None for each in told]
        for each, right in zip(told, sent, strict=True):
            assert each["error"] is not None or data(each) == right
        # The words of the first messages are those of the ones before: these refer to them.
        assert unknown[0]
        assert not all(unknown)
    assert captured.of("undecoded") == []
    assert connections(captured, joined=True) == 1


def schema() -> bytes:
    """Return demo.Echo as protoc --include_imports would write it."""
    imported = descriptor_pb2.FileDescriptorProto()
    wrappers_pb2.DESCRIPTOR.CopyToProto(imported)
    file = descriptor_pb2.FileDescriptorProto(
        name="echo.proto", package="demo", dependency=[imported.name], syntax="proto3"
    )
    service = file.service.add(name="Echo")
    text = ".google.protobuf.StringValue"
    for name in ("Say", "Fail"):
        service.method.add(name=name, input_type=text, output_type=text)
    service.method.add(
        name="Chat",
        input_type=text,
        output_type=text,
        client_streaming=True,
        server_streaming=True,
    )
    return descriptor_pb2.FileDescriptorSet(file=[imported, file]).SerializeToString()


def test_grpc(certificate: Certificate, sniff: Sniff, tmp_path: Path) -> None:
    """Unary and streaming calls, one that fails; both ends, fields by name."""
    protos = tmp_path / "echo.protoset"
    protos.write_bytes(schema())
    echo = "grpclib_echo.py"
    with (
        program(echo, "server", certificate.certificate, certificate.key) as server,
        program(echo, "client", certificate.certificate, next_line(server), "50") as client,
    ):
        pids = ("--pid", str(server.pid), "--pid", str(client.pid))
        with sniff(*pids, "--proto-set", protos) as sniffer:
            client.communicate("go\n", PATIENCE_S)
            assert client.returncode == 0
            sniffer.until(6)
            captured = sniffer.stop()

    chat = [f"message {number}" for number in range(50)]
    asked = {"Say": ["hello"], "Chat": chat, "Fail": ["?"]}
    answered = {"Say": ["HELLO"], "Chat": [each[::-1] for each in chat], "Fail": []}
    seen = [("client", "write", asked), ("server", "read", asked)]
    seen += [("client", "read", answered), ("server", "write", answered)]
    for role, direction, right in seen:
        told = of(captured, "grpc", role, direction)
        assert {each["service"] for each in told} == {"demo.Echo"}
        for method, values in right.items():
            of_method = [each for each in told if each["method"] == method]
            assert [each["named"] for each in of_method] == values  # JSON of StringValue
            assert [each["fields"] for each in of_method] == [
                [{"number": 1, "kind": "text", "value": value}] for value in values
            ]
    for role in ("client", "server"):
        ended = [each["grpc"] for each in captured.exchanges if each["role"] == role]
        assert [(each["method"], each["status_name"], each["message"]) for each in ended] == [
            ("Say", "OK", ""),
            ("Chat", "OK", ""),
            ("Fail", "NOT_FOUND", "no such thing: café"),
        ]
    assert_whole(captured)


def test_events_come_while_the_stream_is_open(certificate: Certificate, sniff: Sniff) -> None:
    with program("event_server.py", certificate.certificate, certificate.key) as server:
        url = f"https://localhost:{next_line(server)}/events"
        with sniff("--pid", str(server.pid)) as sniffer:
            curl = ("curl", "-sSN", "--cacert", certificate.certificate, url)
            with started(*curl) as client:
                sniffer.until(10, "message")
                assert client.poll() is None
                assert '"type":"exchange"' not in sniffer.output.read_text()
                shown, _ = server.communicate(timeout=PATIENCE_S)  # ends the stream
                count = int(shown)
                body, _ = client.communicate(timeout=PATIENCE_S)
            captured = sniffer.wait()

    events = captured.of("message")
    assert count >= 10
    assert [each["id"] for each in events] == [str(number) for number in range(1, count + 1)]
    assert [json.loads(data(each).replace(b"{", b"")[:-1]) for each in events] == [
        *range(1, count + 1)
    ]
    assert {(each["protocol"], each["event"], each["target"]) for each in events} == {
        ("sse", "tick", "/events")
    }
    [exchange] = captured.exchanges
    assert content(exchange["response"]["body"]) == body.encode()
    assert_whole(captured)
