"""A program with OpenSSL linked in and its symbols in a debug file beside it."""

from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole, run_under
from tests.live.sniffer import SSLSNIFF
from tests.live.test_openssl import got, told
from tests.workload.passed import new_nonce
from tests.workload.processes import PROGRAMS, run, started
from tests.workload.servers import Server

pytestmark = pytest.mark.heavy


def test_stripped_program(server: Server, tmp_path: Path) -> None:
    program, debug = tmp_path / "client", tmp_path / "client.debug"
    source = PROGRAMS / "c/openssl_client.c"
    run("gcc", "-O1", "-static", "-w", "-o", program, source, "-lssl", "-lcrypto")
    run("objcopy", "--only-keep-debug", program, debug)
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program)
    nonces = [new_nonce() for _ in range(4)]

    ran = run_under(tmp_path, program, "peek", str(server.port), *nonces)
    rows = told(ran.stdout)
    passed = [got(server, nonce, row) for nonce, row in zip(nonces, rows, strict=True)]
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)

    debug.unlink()
    program.write_bytes(program.read_bytes())  # and what was remembered does not hold
    ran = run_under(tmp_path, program, "peek", str(server.port), *nonces)
    assert len(told(ran.stdout)) == 4
    assert ran.captured.exchanges == []


def test_list_tells_where_symbols_are(tmp_path: Path) -> None:
    program, debug = tmp_path / "waits", tmp_path / "waits.debug"
    source = tmp_path / "waits.c"
    source.write_text(
        "#include <openssl/ssl.h>\n#include <stdio.h>\n"
        'int main(void) { SSL *ssl = SSL_new(SSL_CTX_new(TLS_method())); puts("");'
        "fflush(stdout); getchar(); return SSL_read(ssl, ssl, 1) + SSL_write(ssl, ssl, 1); }"
    )
    run("gcc", "-static", "-w", "-o", program, source, "-lssl", "-lcrypto")
    run("objcopy", "--only-keep-debug", program, debug)
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program)
    with started(program) as process:
        assert process.stdout is not None
        process.stdout.readline()
        shown = run(SSLSNIFF, "list", "--pid", str(process.pid))
    assert f" symbols of {debug} " in shown
