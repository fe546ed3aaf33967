"""``sslsniff -- COMMAND`` as a user without rights: real programs, each request and both ends."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import libraries
from tests.live.checks import (
    assert_passed,
    assert_whole,
    connections,
    content,
    read,
    seen,
)
from tests.live.preload.running_as_nobody import run_as_nobody
from tests.live.refusals import assert_told
from tests.live.sniffer import Captured
from tests.live.test_gnutls import UNKNOWN, found, script, wget, without_port
from tests.live.test_gnutls import asked as asked_by_wget
from tests.live.test_gnutls import requests as requests_of_wget
from tests.workload.curl import Request, curl, gets, results
from tests.workload.databases import DATABASES, PASSWORD
from tests.workload.nobody import NOBODY, ROOT, as_nobody
from tests.workload.passed import new_nonce, sha256, told
from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S, run
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

PYTHON = "/mnt/.venv/bin/python"
PROGRAMS = "/mnt/tests/workload/python"


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl(version: str, server: Server, own_certificate: Certificate, folder: Path) -> None:
    requests = [*gets(20), Request("/bytes/200000"), Request("/echo", "POST", pattern(100_000))]
    command = curl(server.url, requests, own_certificate, folder, version)
    capture = folder / "capture.pcapng"
    ran = run_as_nobody(folder, *command, options=f"--pcap {capture}")
    assert_passed(ran.captured, results(ran.stdout.decode(), requests), role="client")
    assert_whole(ran.captured)
    alpn = {"--http1.1": "http/1.1", "--http2": "h2"}[version]
    facts = {"sni": "localhost", "alpn": alpn, "tls_version": "TLS 1.3", "comm": "curl"}
    assert connections(ran.captured, joined=False, **facts) == 1
    assert connections(ran.captured, "closed", **facts) == 1
    assert read(capture).exchanges == ran.captured.exchanges


@pytest.mark.heavy
def test_wget(server: Server, own_certificate: Certificate, folder: Path) -> None:
    requests = requests_of_wget()
    commands = [
        wget(request, number, server, own_certificate, folder)
        for number, request in enumerate(requests)
    ]
    ran = run_as_nobody(folder, "sh", "-c", script(commands))
    expected = asked_by_wget(requests, server, folder)
    assert all(each.client[1] for each in found(ran.captured, "client"))
    assert without_port(found(ran.captured, "client")) == without_port(expected)
    assert {each.client for each in expected} == {UNKNOWN}
    assert {each["library"] for each in ran.captured.exchanges} == {"gnutls"}
    assert_whole(ran.captured)


@pytest.mark.parametrize("style", ["http.client", "requests", "httpx", "aiohttp", "threads"])
def test_python(style: str, server: Server, own_certificate: Certificate, folder: Path) -> None:
    program = (PYTHON, f"{PROGRAMS}/python_client.py", style, str(server.port))
    ran = run_as_nobody(folder, *program, own_certificate.certificate, stdin="3\n6\n")
    passed = told("".join(line + "\n" for line in ran.stdout.decode().splitlines() if line))
    assert len(passed) == 9 * (4 if style == "threads" else 1)
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)


NODE_ASKS = """
const https = require('https'), fs = require('fs');
const [port, certificate, ...nonces] = process.argv.slice(1);
const agent = new https.Agent({keepAlive: true, maxSockets: 3, ca: fs.readFileSync(certificate)});
for (const nonce of nonces)
  https.get({host: 'localhost', port, path: '/bytes/70000', agent, headers: {'x-nonce': nonce}},
            (answer) => answer.resume());
setTimeout(() => agent.destroy(), 2000);
"""


@pytest.mark.heavy
def test_node_with_a_shared_openssl(
    server: Server, own_certificate: Certificate, folder: Path
) -> None:
    """Debian's: it fetches OpenSSL as a library, and reads and writes through memory."""
    nonces = [new_nonce() for _ in range(12)]
    node = libraries.library("nodejs")
    arguments = (str(server.port), str(own_certificate.certificate), *nonces)
    command = at_mnt(*node.loader, node.folder / "usr/bin/node")
    share = node.folder / "usr/share"
    ran = run_as_nobody(folder, *command, "-e", NODE_ASKS, *arguments, share=share)
    assert sorted(seen(each).nonce for each in ran.captured.exchanges) == sorted(nonces)
    hashes = {seen(each).response_sha256 for each in ran.captured.exchanges}
    assert hashes == {sha256(pattern(70_000))}
    assert all(each["client"] and each["server"] for each in ran.captured.exchanges)
    assert_whole(ran.captured)


def at_mnt(*command: str | Path) -> list[str]:
    """Return a command with files of the project where that user may read them."""
    return [str(each).replace(str(ROOT), "/mnt") for each in command]


@pytest.mark.heavy
def test_psql(certificate: Certificate, folder: Path) -> None:
    with DATABASES["postgresql"](certificate) as database:
        where = f"host=127.0.0.1 port={database.port} user=app dbname=postgres sslmode=require"
        asked = ["SELECT generate_series(1, 1000)", "SELECT 'a', pg_sleep(0.1)", "SELECT 1"]
        statements = [part for text in asked for part in ("-c", text)]
        command = ("env", f"PGPASSWORD={PASSWORD}", "psql", "-X", "-q", where, *statements)
        ran = run_as_nobody(folder, *command)
        plain = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)
    assert ran.stdout == plain.stdout
    assert [each["db"]["text"] for each in ran.captured.exchanges] == asked
    assert [each["db"]["rows"] for each in ran.captured.exchanges] == [1000, 1, 1]
    assert_whole(ran.captured)


NGINX = """
daemon off; pid {folder}/pid; worker_processes 2;
events {{ }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    access_log {folder}/access.log;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {folder}/certificate.pem;
        ssl_certificate_key {folder}/key.pem;
        root {folder}/files;
    }}
}}
"""


def test_nginx_and_git(certificate: Certificate, folder: Path) -> None:
    """A command that starts a server, and a client that clones from it: both ends are seen."""
    files = folder / "files"
    run("git", "init", "-q", "--bare", files / "own.git")
    run("git", "clone", "-q", files / "own.git", folder / "source")
    (folder / "source/large").write_bytes(pattern(3_000_000))
    run("sh", "-c", COMMIT, files / "own.git", folder / "source")
    shutil.copy(certificate.key, folder / "key.pem")
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    run("chown", "-R", NOBODY, folder)
    ran = run_as_nobody(folder, "sh", "-c", SERVE_AND_CLONE, str(folder), str(port))
    assert (folder / "clone/large").read_bytes() == pattern(3_000_000)
    ends = {role: exchanges_of(ran.captured, role) for role in ("client", "server")}
    assert ends["client"] == ends["server"]
    logged = (folder / "access.log").read_text().splitlines()
    assert len(ran.captured.exchanges) == 2 * len(logged)
    assert {each["library"] for each in ran.captured.exchanges} == {"gnutls", "openssl"}
    assert_whole(ran.captured)


COMMIT = """
set -e; cd "$1"
git add large
git -c user.name=one -c user.email=one@localhost commit -q -m large
git push -q origin HEAD
cd "$0"; git update-server-info
"""
SERVE_AND_CLONE = """
nginx -p "$0" -c nginx.conf -e stderr & server=$!
until test -e "$0/pid"; do sleep 0.05; done
export HOME="$0" GIT_SSL_NO_VERIFY=1
git clone -q "https://127.0.0.1:$1/own.git" "$0/clone"
kill -QUIT $server; wait $server
"""


def exchanges_of(captured: Captured, role: str) -> list[tuple[str, int, str]]:
    """Return target, status and hash of the body of each exchange that an end saw."""
    return sorted(
        (each["request"]["target"], each["response"]["status"], body_sha256(each))
        for each in captured.exchanges
        if each["role"] == role
    )


def body_sha256(exchange: dict[str, Any]) -> str:
    assert exchange["error"] is None
    return sha256(content(exchange["response"]["body"]))


def test_memory_buffers(server: Server, own_certificate: Certificate, folder: Path) -> None:
    """The library has no descriptor, and the thread also asks for names by UDP."""
    program = (PYTHON, f"{PROGRAMS}/asks_names.py", str(server.port))
    ran = run_as_nobody(folder, *program, own_certificate.certificate, "3")
    assert_whole(ran.captured)
    assert [each["client"]["port"] for each in ran.captured.exchanges] == [int(ran.stdout)] * 3
    assert {each["server"]["port"] for each in ran.captured.exchanges} == {server.port}


def test_exit_code_and_streams(folder: Path) -> None:
    done = as_nobody("--json", "-o", folder / "first.jsonl", "--", "sh", "-c", "cat; exit 7")
    assert (done.returncode, done.stdout) == (7, "")
    ran = run_as_nobody(folder, "cat", stdin="as it is\n")
    assert ran.stdout == b"as it is\n"


def test_what_still_needs_rights(bystander: str, own_library: Path) -> None:
    """Each error names what can be done without them, too."""
    for arguments in (["--pid", bystander], ["--lib", str(own_library)]):
        done = as_nobody(*arguments)
        assert_told(done, f"user {NOBODY}")
        assert "sslsniff -- COMMAND" in done.stderr
    done = as_nobody("--engine", "probes", "--", "true")
    assert_told(done, f"user {NOBODY}")
    done = as_nobody("--keylog", "/dev/null", "--", "true")
    assert_told(done, f"user {NOBODY}")
    assert "leave out --keylog" in done.stderr


LOADS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments)
{
    void *near = dlopen("libnear.so", RTLD_NOW);
    if (!near || !dlsym(near, "near") || !dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) ||
        !dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW))
        puts(dlerror());
    if (dlsym(RTLD_DEFAULT, "SSL_read") || dlsym(RTLD_DEFAULT, "gnutls_init"))
        puts("there are functions of libraries that are not loaded");
    return count - 2;
}
"""


def test_ways_to_load_a_library(folder: Path) -> None:
    """A file beside the program is found; what hides a library from the wrappers is reported."""
    (folder / "near.c").write_text("int near;\n")
    run("gcc", "-shared", "-o", folder / "libnear.so", folder / "near.c")
    (folder / "loads.c").write_text(LOADS)
    near = "-Wl,-rpath,$ORIGIN,--enable-new-dtags"
    run("gcc", "-o", folder / "loads", folder / "loads.c", near, "-ldl")
    ran = run_as_nobody(folder, folder / "loads", "libz.so.1")
    assert ran.stdout == b""
    not_shown = "their TLS calls are not shown; run sslsniff with sudo"
    assert f"libraries loaded by dlmopen: 1; {not_shown}\n" in ran.captured.stderr
