"""Returns seen at the return instructions, as on kernels where return probes are not safe."""

from pathlib import Path

from sslsniff.matching.probe_set import Attachment, ReturnStyle
from tests.live.checks import Sniff, assert_passed, assert_whole, connections, content, seen
from tests.live.memory import breakpoints
from tests.planned import plan_file
from tests.workload.clients import ask, python_client
from tests.workload.curl import Request, curl, gets, results
from tests.workload.passed import new_nonce
from tests.workload.processes import loading, run
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

BY_INSTRUCTIONS = ("--returns", "instructions")


def test_probes_stand_on_return_instructions(
    server: Server,
    certificate: Certificate,
    own_library: Path,
    sniff: Sniff,
) -> None:
    """A Python process, from before sslsniff on."""
    plan = plan_file(str(own_library), style=ReturnStyle.INSTRUCTIONS)
    assert isinstance(plan, Attachment)
    assert not any(each.is_return for each in plan.probes)
    with (
        python_client(server, certificate, "requests", **loading(own_library)) as client,
        sniff(*BY_INSTRUCTIONS, "--pid", str(client.pid)) as sniffer,
    ):
        assert breakpoints(client.pid, own_library) == {each.offset for each in plan.probes}
        passed = ask(client, 12)
        sniffer.until(12)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert connections(captured, joined=False, sni="localhost", alpn="http/1.1") == 1


def test_curl(
    server: Server,
    certificate: Certificate,
    own_library: Path,
    tmp_path: Path,
    sniff: Sniff,
) -> None:
    requests = [*gets(6), Request("/echo", "POST", pattern(70_000)), Request("/bytes/3000000")]
    passed = []
    with sniff(*BY_INSTRUCTIONS, "--lib", str(own_library)) as sniffer:
        for version in ("--http1.1", "--http2"):
            command = curl(server.url, requests, certificate, tmp_path, version)
            passed += results(run(*command, **loading(own_library)), requests)
        sniffer.until(16)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert connections(captured, joined=False) == connections(captured, "closed") == 2


def test_s_client(server: Server, own_library: Path, sniff: Sniff) -> None:
    nonce = new_nonce()
    request = f"GET /of/s_client HTTP/1.1\r\nHost: localhost\r\nX-Nonce: {nonce}\r\n"
    client = f"openssl s_client -quiet -connect 127.0.0.1:{server.port}"
    with sniff(*BY_INSTRUCTIONS, "--lib", str(own_library)) as sniffer:
        answer = run(
            "sh",
            "-c",
            f"{client} || true",
            stdin=f"{request}Connection: close\r\n\r\n",
            **loading(own_library),
        ).split("\n\n", 1)[1]
        sniffer.until(1)
        captured = sniffer.stop()

    [exchange] = captured.exchanges
    assert seen(exchange).nonce == nonce
    assert content(exchange["response"]["body"]) == answer.encode()
    assert_whole(captured)
    assert connections(captured, "closed", comm="openssl") == 1
