"""Returns seen at the return instructions, as on kernels where return probes are not safe."""

import os
import sys
from pathlib import Path

import pytest

from sslsniff.attachments import Attachment
from sslsniff.parts import ReturnStyle
from sslsniff.targets import plan_file
from tests.live.checks import (
    Sniff,
    assert_passed,
    assert_whole,
    connections,
    content,
    new_nonce,
    run,
    seen,
    started,
    told,
)
from tests.live.curl import Request, curl, gets, results
from tests.live.memory import breakpoints
from tests.programs.server import pattern
from tests.servers import PROGRAMS, Certificate, Server

BY_INSTRUCTIONS = ("--returns", "instructions")


@pytest.fixture
def loading(own_library: Path) -> dict[str, str]:
    """Return the environment in which programs use the library that is probed."""
    return {"LD_LIBRARY_PATH": str(own_library.parent)}


def test_probes_stand_on_return_instructions(
    server: Server,
    certificate: Certificate,
    own_library: Path,
    loading: dict[str, str],
    sniff: Sniff,
) -> None:
    """A Python process, from before sslsniff on."""
    plan = plan_file(str(own_library), style=ReturnStyle.INSTRUCTIONS)
    assert isinstance(plan, Attachment)
    assert not any(each.is_return for each in plan.probes)
    program = (PROGRAMS / "python_client.py", "requests", str(server.port), certificate.certificate)
    with started(sys.executable, *program, env={**os.environ, **loading}) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        with sniff(*BY_INSTRUCTIONS, "--pid", str(client.pid)) as sniffer:
            assert breakpoints(client.pid, own_library) == {each.offset for each in plan.probes}
            client.stdin.write("12\n")
            client.stdin.flush()
            passed = told("".join(iter(client.stdout.readline, "\n")))
            sniffer.until(12)
            captured = sniffer.stop()

    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert connections(captured, joined=False, sni="localhost", alpn="http/1.1") == 1


def test_curl(
    server: Server,
    certificate: Certificate,
    own_library: Path,
    loading: dict[str, str],
    tmp_path: Path,
    sniff: Sniff,
) -> None:
    requests = [*gets(6), Request("/echo", "POST", pattern(70_000)), Request("/bytes/3000000")]
    passed = []
    with sniff(*BY_INSTRUCTIONS, "--lib", str(own_library)) as sniffer:
        for version in ("--http1.1", "--http2"):
            command = curl(server.url, requests, certificate, tmp_path, version)
            passed += results(run(*command, **loading), requests)
        sniffer.until(16)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert connections(captured, joined=False) == connections(captured, "closed") == 2


def test_s_client(server: Server, own_library: Path, loading: dict[str, str], sniff: Sniff) -> None:
    nonce = new_nonce()
    request = f"GET /of/s_client HTTP/1.1\r\nHost: localhost\r\nX-Nonce: {nonce}\r\n"
    client = f"openssl s_client -quiet -connect 127.0.0.1:{server.port}"
    with sniff(*BY_INSTRUCTIONS, "--lib", str(own_library)) as sniffer:
        answer = run(
            "sh", "-c", f"{client} || true", stdin=f"{request}Connection: close\r\n\r\n", **loading
        ).split("\n\n", 1)[1]
        sniffer.until(1)
        captured = sniffer.stop()

    [exchange] = captured.exchanges
    assert seen(exchange).nonce == nonce
    assert content(exchange["response"]["body"]) == answer.encode()
    assert_whole(captured)
    assert connections(captured, "closed", comm="openssl") == 1
