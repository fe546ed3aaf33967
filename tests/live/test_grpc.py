"""gRPC servers by tonic and gRPC-Go: each call and message, exactly; their frames."""

import sys

import pytest

from tests.live.checks import Sniff, content
from tests.live.running import assert_captured
from tests.live.sniffer import Captured
from tests.workload.go import fixtures as go_fixtures
from tests.workload.passed import told
from tests.workload.processes import PROGRAMS, run
from tests.workload.rust import fixtures as rust_fixtures
from tests.workload.rust.fixtures import Fixture
from tests.workload.servers import Certificate, Server, built_server

Built = Fixture | go_fixtures.Fixture

MESSAGES = {"Unary": 1, "Streaming": 5}
"""How many grpc_client.py sends, by method."""
PREFIX_BYTES = 5
"""A flag and the length (PROTOCOL-HTTP2.md, Length-Prefixed-Message)."""
SERVERS = pytest.mark.parametrize(
    "fixture", [*rust_fixtures.fixtures("grpc"), *go_fixtures.fixtures("grpc")], ids="-".join
)


def call(server: Server, certificate: Certificate, *counts: int) -> str:
    """Make so many calls at once on each connection, half of them streams."""
    program = (sys.executable, PROGRAMS / "python/grpc_client.py", str(server.port))
    return run(*program, certificate.certificate, *map(str, counts))


def bodies(captured: Captured, direction: str) -> dict[tuple[int, int, str], list[bytes]]:
    """Return the messages of each call: of ``connection``, ``stream`` and ``method``."""
    found: dict[tuple[int, int, str], list[bytes]] = {}
    for each in captured.of("grpc"):
        assert (each["service"], each["error"], each["missing_bytes"]) == ("test.Echo", None, 0)
        if each["direction"] == direction:
            whose = (each["connection"], each["stream"], each["method"])
            found.setdefault(whose, []).append(content(each["data"]))
    return found


@pytest.mark.heavy
@SERVERS
def test_calls(fixture: Built, certificate: Certificate, sniff: Sniff) -> None:
    with (
        built_server(fixture.path, certificate) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        passed = told(call(server, certificate, 10, 10, 10, 10, 10))
        sniffer.until(50)
        sniffer.until(2 * 5, "connection")
        captured = sniffer.stop()
    assert_captured(captured, passed, "server", fixture.library, "1.3")

    asked, answered = (bodies(captured, direction) for direction in ("read", "write"))
    assert len(asked) == len(answered) == 50
    for each in captured.exchanges:
        method = each["grpc"]["method"]
        assert each["grpc"] == {
            **{"service": "test.Echo", "method": method},
            **{"status": 0, "status_name": "OK", "message": ""},
        }
        whose = (each["connection"], each["stream"], method)
        for half, messages in (("request", asked[whose]), ("response", answered[whose])):
            assert len(messages) == MESSAGES[method]
            framed = (b"\0" + len(data).to_bytes(4, "big") + data for data in messages)
            assert b"".join(framed) == content(each[half]["body"])


@pytest.mark.heavy
@SERVERS
def test_frames(fixture: Built, certificate: Certificate, sniff: Sniff) -> None:
    """Each message comes between the frames that have it, and those of its headers and trailers."""
    with (
        built_server(fixture.path, certificate) as server,
        sniff("--pid", str(server.pid), "--frames") as sniffer,
    ):
        call(server, certificate, 4)
        sniffer.until(2, "frame_totals")
        captured = sniffer.stop()
    streams = {each["stream"]: each["request"]["target"] for each in captured.exchanges}
    assert sorted(streams.values()) == 2 * ["/test.Echo/Streaming"] + 2 * ["/test.Echo/Unary"]
    for stream, path in streams.items():
        for direction in ("read", "write"):
            passed = [
                each
                for each in captured.objects
                if (each.get("stream"), each.get("direction")) == (stream, direction)
                and each.get("frame") != "WINDOW_UPDATE"
            ]
            head, *rest = passed
            if direction == "read":
                assert [":path", path] in head["headers"]
            else:
                trailers = rest.pop()
                assert ["grpc-status", "0"] in trailers["headers"]
            messages = [each for each in rest if each["type"] == "grpc"]
            assert len(messages) == MESSAGES[path.rpartition("/")[2]]
            for each in messages:
                assert f"/{each['service']}/{each['method']}" == path
            frames = [each for each in rest if each["type"] == "frame"]
            assert {each["frame"] for each in frames} == {"DATA"}
            sizes = [each["data"]["size"] + PREFIX_BYTES for each in messages]
            assert sum(each["length"] for each in frames) == sum(sizes)
