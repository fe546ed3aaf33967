"""MCP by standard input and output: what a started program and its servers say, and nobody else."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Ran, read, run_under
from tests.live.refusals import sniff
from tests.live.sniffer import SSLSNIFF, divided
from tests.workload.processes import PATIENCE_S, PROGRAMS, next_line, started, until_said

AGENT = PROGRAMS / "python/stdio_agent.py"
SERVER = PROGRAMS / "python/stdio_server.py"
WAYS = ["pipes", "sockets", "shell", "exec"]
MEGABYTE = 1_000_000
SECRET = "Wp4kZ0qT7mXc2LrB"
MARK = "of another process"
OWN_ANSWER = {
    "jsonrpc": "2.0",
    "id": 2,
    "result": {"content": [{"type": "text", "text": "of its own"}]},
}


def repeat(text: str, times: int) -> tuple[str, str]:
    """Return a call for ``stdio_agent.py``."""
    return "repeat", json.dumps({"text": text, "times": times})


def run_agent(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> Ran:
    return run_under(folder, sys.executable, AGENT, *arguments, options=("--stdio", *options))


def answers(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def shown_calls(ran: Ran, method: str = "tools/call") -> list[dict[str, Any]]:
    """Return the calls that were captured, in the order in which they began."""
    calls = [each for each in ran.captured.exchanges if each["rpc"]["method"] == method]
    return sorted(calls, key=lambda each: str(each["time"]))


def assert_nothing_is_lost(ran: Ran) -> None:
    """All but the line that each server prints first was decoded."""
    undecoded = ran.captured.of("undecoded")
    assert [each["data"]["text"] for each in undecoded] == ["server-0 is ready"]
    assert ran.captured.summary["lost_bytes"] == 0


def result_of(exchange: dict[str, Any]) -> Any:
    return json.loads(exchange["rpc"]["result"])


@pytest.mark.parametrize("how", WAYS)
def test_every_call(how: str, tmp_path: Path) -> None:
    """Each call with its tool, its arguments and its result, by the right processes."""
    calls = [repeat(f"text {number} ", number) for number in range(20)]
    ran = run_agent(tmp_path, how, "1", *(word for call in calls for word in call))

    shown = shown_calls(ran)
    assert [result_of(each) for each in shown] == [each["result"] for each in answers(ran)]
    assert [(each["rpc"]["name"], each["rpc"]["id"]) for each in shown] == [
        ("repeat", number + 2) for number in range(20)
    ]
    asked = [json.loads(each["rpc"]["parameters"])["arguments"] for each in shown]
    assert asked == [json.loads(arguments) for _, arguments in calls]
    assert len(shown_calls(ran, "initialize")) == 1
    assert len(ran.captured.exchanges) == 21
    assert_nothing_is_lost(ran)
    for each in shown:
        assert (each["protocol"], each["library"], each["role"]) == ("mcp", "stdio", "client")
        assert each["llm"]["api"] == "mcp"
        assert each["duration_ms"] >= 0
        words = each["peer"]["command"]
        assert str(SERVER) in (words[-1] if how in {"shell", "exec"} else words[1])
    assert len({each["pid"] for each in shown} | {shown[0]["peer"]["pid"]}) == 2
    events = [each["event"] for each in ran.captured.of("connection")]
    assert events == ["opened", "closed"]
    [notified] = ran.captured.of("message")
    assert (notified["method"], notified["direction"]) == ("notifications/initialized", "write")


def test_failures(tmp_path: Path) -> None:
    ran = run_agent(tmp_path, "pipes", "1", "fail", "{}", "nothing", "{}", *repeat("a", 1))
    assert [
        (each["rpc"]["name"], each["rpc"]["code"], each["rpc"]["error"])
        for each in shown_calls(ran)
    ] == [
        ("fail", None, "no such file"),
        ("nothing", -32602, "no tool nothing"),
        ("repeat", None, None),
    ]


def test_large_messages(tmp_path: Path) -> None:
    """A pipe has 64 KiB: a message of a megabyte takes several writes, both ways."""
    padded = json.dumps({"text": "a", "times": 1, "padding": MEGABYTE})
    ran = run_agent(tmp_path, "pipes", "1", "repeat", padded, *repeat("y" * 1000, 1000))
    sizes = [
        (each["rpc"]["request_bytes"] > MEGABYTE, each["rpc"]["response_bytes"])
        for each in shown_calls(ran)
    ]
    told = [len(json.dumps(each)) for each in answers(ran)]
    assert sizes == [(True, told[0]), (False, told[1])]
    assert told[1] > MEGABYTE
    assert_nothing_is_lost(ran)


def test_several_servers_at_once(tmp_path: Path) -> None:
    """They have the same ids; each call is of the server that was asked."""
    ran = run_agent(tmp_path, "pipes", "5", *("name", "{}") * 4)
    named = [
        (each["peer"]["command"][-1], result_of(each)["content"][0]["text"])
        for each in shown_calls(ran)
    ]
    assert Counter(named) == {(f"server-{n}", f"server-{n}"): 4 for n in range(5)}
    assert len({each["connection"] for each in ran.captured.exchanges}) == 5


def test_a_server_that_dies(tmp_path: Path) -> None:
    ran = run_agent(tmp_path, "pipes", "1", *repeat("a", 1), "die", "{}")
    assert answers(ran)[-1] is None
    assert [(each["rpc"]["name"], each["error"]) for each in shown_calls(ran)] == [
        ("repeat", None),
        ("die", "connection closed"),
    ]


def test_an_agent_that_dies(tmp_path: Path) -> None:
    """Its server sees the end of its input, and ends, too."""
    program = tmp_path / "dying.py"
    program.write_text(
        f"import os, sys; sys.path.insert(0, {str(AGENT.parent)!r})\n"
        "import stdio_agent\n"
        "server = stdio_agent.Server('pipes', 'a')\n"
        "print(server.ask('ping'), flush=True)\n"
        "server.tell({'jsonrpc': '2.0', 'id': 9, 'method': 'tools/call', 'params':"
        " {'name': 'repeat', 'arguments': {'text': 'a', 'times': 1}}})\n"
        "os._exit(0)\n"
    )
    ran = run_under(tmp_path, sys.executable, program, options=("--stdio",))
    assert {each["rpc"]["method"]: each["error"] for each in ran.captured.exchanges}["ping"] is None
    assert {each["rpc"]["id"] for each in ran.captured.exchanges} == {1, 9}


def test_calls_of_several_threads_at_once(tmp_path: Path) -> None:
    """Some answers are seen before their requests: each is its own request's all the same."""
    program = tmp_path / "threads.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(AGENT.parent)!r})\n"
        "import threading, stdio_agent\n"
        "server = stdio_agent.Server('pipes', 'a')\n"
        "def ask(thread):\n"
        "    for number in range(250):\n"
        "        text = {'text': f'{thread}-{number}', 'times': 1}\n"
        "        server.tell({'jsonrpc': '2.0', 'id': f'{thread}-{number}', 'method': 'tools/call',"
        " 'params': {'name': 'repeat', 'arguments': text}})\n"
        "threads = [threading.Thread(target=ask, args=(each,)) for each in range(4)]\n"
        "for each in threads: each.start()\n"
        "for _ in range(1001): server._lines.readline()\n"
        "server.close()\n"
    )
    ran = run_under(tmp_path, sys.executable, program, options=("--stdio",))
    shown = shown_calls(ran)
    assert len(shown) == 1000
    for each in shown:
        assert result_of(each)["content"][0]["text"] == each["rpc"]["id"]
        assert each["duration_ms"] is not None


def test_what_is_lost_is_counted(tmp_path: Path) -> None:
    """Of an answer that is cut, the rest is a loss; the next call is read again."""
    calls = (*repeat("y", 200_000), "name", "{}")
    ran = run_agent(tmp_path, "pipes", "1", *calls, options=("--max-call-bytes", "64k"))
    [cut, whole] = shown_calls(ran)
    assert (cut["error"], whole["error"]) == ("connection closed", None)
    assert result_of(whole) == answers(ran)[1]["result"]
    size = len(json.dumps(answers(ran)[0]))  # its line end is another write
    assert ran.captured.summary["lost_bytes"] == size - (64 << 10)
    assert {each["cause"] for each in ran.captured.of("loss")} == {"call limit"}


@pytest.mark.parametrize(
    "pipeline",
    [
        "seq 100000 | cat | tail -n 1",
        "seq 3 | sed 's/.*/{\"a\":&}/' | cat | cat >/dev/null; echo 100000",
        "(sleep 0.1; seq 100000) | (echo first; cat) | tail -n 1",
    ],
)
def test_other_pipelines_are_not_shown(pipeline: str, tmp_path: Path) -> None:
    ran = run_under(tmp_path, "sh", "-c", pipeline, options=("--stdio", "--chunks"))
    assert ran.stdout == b"100000\n"
    assert [each["type"] for each in ran.captured.objects] == ["summary"]
    assert ran.captured.summary["connections"] == ran.captured.summary["lost_bytes"] == 0
    assert "no program answered JSON-RPC" in ran.captured.stderr


def test_without_the_option_nothing_is_seen(tmp_path: Path) -> None:
    ran = run_under(tmp_path, sys.executable, AGENT, "pipes", "1", *repeat("a", 1))
    assert [each["type"] for each in ran.captured.objects] == ["summary"]


def test_others_are_never_read(tmp_path: Path) -> None:
    """Neither agents beside the command, nor what comes to it, or goes from it, by a pipe."""
    reader, writer = os.pipe()
    tool = {"name": "repeat", "arguments": {"text": MARK, "times": 1}}
    asked = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": tool})
        for number in (1, 2)
    ]
    output = tmp_path / "captured.jsonl"
    options = ("--json", "--chunks", "-o", output, "--stdio")
    script = f'"$0" {AGENT} {reader} 1 repeat "{{}}" & "$0" "$@"; wait'
    inside = (AGENT, "pipes", "1", *repeat("of its own", 1))
    with (
        started(sys.executable, AGENT, "pipes", "1", *repeat(MARK, 1) * 1000) as beside,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=writer, text=True) as foreign,
        started(
            *(SSLSNIFF, *options, "--", "sh", "-c", script, sys.executable, *inside),
            pass_fds=(reader,),
        ) as sniffing,
    ):
        os.close(writer)
        os.close(reader)
        until_said(sniffing, json.dumps(OWN_ANSWER))
        foreign.communicate("\n".join([*asked, ""]))
        assert MARK in next_line(sniffing), "the server whose input is inherited answers"
        assert sniffing.wait(PATIENCE_S) == 0
        assert MARK in next_line(beside)
    captured = output.read_text()
    assert "of its own" in captured
    assert MARK not in captured


def test_secrets_are_blanked(tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    texts = json.dumps({"text": "a", "times": 1, "password": SECRET})
    ran = run_agent(
        *(tmp_path, "pipes", "1", "repeat", texts, *repeat(f"Authorization: Bearer {SECRET}", 1)),
        options=("--redact", "--pcap", str(capture)),
    )
    assert [each["rpc"]["name"] for each in shown_calls(ran)] == ["repeat"] * 2
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()
    command = (SSLSNIFF, "read", capture, "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stderr == "sslsniff: redacted: 3 secrets: 2 bearer, 1 password\n"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    again = [each["rpc"] for each in lines if each["type"] == "exchange"]
    assert again == [each["rpc"] for each in ran.captured.exchanges]


def test_a_capture_file_has_the_same(tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    calls = (*repeat("a", 100_000), "fail", "{}")
    ran = run_agent(tmp_path, "sockets", "2", *calls, options=("--pcap", str(capture)))
    again = read(capture)
    for name in ("rpc", "llm", "peer", "protocol", "pid", "error"):
        assert Counter(json.dumps(each[name]) for each in again.exchanges) == Counter(
            json.dumps(each[name]) for each in ran.captured.exchanges
        )
    assert {each["tls"] for each in again.of("connection")} == {False}


def test_lines(tmp_path: Path) -> None:
    command = (sys.executable, AGENT, "pipes", "1", *repeat("a", 1), "fail", "{}")
    done = sniff("--stdio", "-v", "--", *command)
    lines = [
        line.split(maxsplit=2)[2]
        for line in divided(done.stderr)[0].splitlines()[:-1]
        if ":" in line
    ]
    shown = [" ".join(line.split()[:4]) for line in lines if "  mcp  " in f"  {line}  "]
    assert len(shown) == 3
    assert '{"name":"repeat","arguments":{"text":"a","times":1}}' in done.stderr
    assert "failed" in done.stderr
    assert "no such file" in done.stderr
    assert "server-0 is ready" in done.stderr
    assert f"python {SERVER.name}[" in done.stderr or f"{SERVER.name}[" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "fact", "code"),
    [
        (("--stdio",), "--stdio is of the processes that a command starts: add -- COMMAND", 2),
        (("--stdio", "--pid", "1"), "add -- COMMAND", 2),
        (("--stdio", "--pid", "1", "--", "true"), "leave out what selects others", 2),
        (("--stdio", "--no-children", "--", "true"), "leave out what selects others", 2),
        (("--stdio", "--loader", "bcc", "--", "true"), "works with --loader co-re only", 2),
        (("--stdio", "--engine", "preload", "--", "true"), "cannot serve --stdio", 2),
    ],
)
def test_refused(arguments: tuple[str, ...], fact: str, code: int) -> None:
    done = sniff(*arguments)
    assert done.returncode == code
    assert fact in done.stderr.splitlines()[-1]
