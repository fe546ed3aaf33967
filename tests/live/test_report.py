"""The report of a live capture: every request that clients sent, and whole after Ctrl-C."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, run_under
from tests.live.running import requests
from tests.live.sniffer import LOADER, READY, SSLSNIFF
from tests.live.test_model_calls import CALLS, call, captured_calls
from tests.live.test_stats import VERSIONS
from tests.unit.outputs.report.pages import Parts
from tests.workload.browser import chromium
from tests.workload.curl import curl, results
from tests.workload.servers import Certificate, Server


@pytest.mark.heavy
@pytest.mark.parametrize("version", VERSIONS)
def test_it_has_every_exchange(
    version: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    asked, page = requests(53), tmp_path / "a.html"
    command = curl(server.url, asked, certificate, tmp_path, *VERSIONS[version])
    ran = run_under(tmp_path, *command, options=("--report", str(page)))

    assert_passed(ran.captured, results(ran.stdout.decode(), asked), role="client")
    assert_whole(ran.captured)
    assert not ran.captured.of("wait")
    parts = Parts(page.read_bytes())
    heads = parts.lines("heads")
    assert [(head["time"], head["request"]["target"]) for head in heads] == [
        (each["time"], each["request"]["target"]) for each in ran.captured.exchanges
    ]
    assert parts.capture["total"]["count"] == len(asked)
    assert parts.capture["summary"]["losses"] == []
    assert parts.capture["summary"]["not_probed"] == []
    with chromium() as browser:
        browser.open(page)
        assert browser.run("return exchanges.length") == len(asked)
        assert (browser.violations(), browser.log()) == ([], [])


@pytest.mark.heavy
def test_calls_of_real_sdks_are_conversations(
    certificate: Certificate, sniff: Sniff, tmp_path: Path
) -> None:
    page = tmp_path / "a.html"
    told = ("--report", str(page))
    with captured_calls("model_server.py", certificate, sniff, *told) as (port, running):
        for sdk, streamed in CALLS:
            call("model_client.py", certificate, port, sdk, *(["stream"] if streamed else []))
        running.until(len(CALLS), "exchange")
        captured = running.stop()
    lines = [each["llm"] for each in captured.of("exchange")]
    with chromium() as browser:
        browser.open(page)
        rows = browser.run(
            "return [...document.querySelectorAll('#models tbody tr')].map((row) =>"
            " [row.cells[3], row.cells[4], row.cells[5]].map((cell) => cell.textContent))"
        )
        assert rows == [
            [llm["api"], *(str(llm["usage"][f"{way}_tokens"]) for way in ("input", "output"))]
            for llm in lines
        ]
        for number, llm in enumerate(lines):
            browser.run("openDetail(arguments[0], list.found)", number)
            shown = browser.run(
                "return [...document.querySelectorAll('.turns > li')].map((turn) =>"
                " [...turn.querySelectorAll(':scope > pre')].map((each) => each.textContent))"
            )
            texts = [*(turn["text"] for turn in llm["messages"]), llm["text"]]
            assert shown == [[text] if text else [] for text in texts]
        assert (browser.violations(), browser.log()) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_is_whole_or_says_that_there_is_none(
    number: signal.Signals, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    page, asked = tmp_path / "a.html", requests(20)
    watch: list[str | Path] = [
        SSLSNIFF,
        "--loader",
        LOADER,
        "--pid",
        str(server.pid),
        "--report",
        str(page),
    ]
    with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as sniffer:
        assert sniffer.stderr is not None
        assert sniffer.stderr.readline().startswith(READY)
        command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
        subprocess.run(command, check=True, capture_output=True)
        time.sleep(0.5)
        assert b"<title>No report yet</title>" in page.read_bytes()
        sniffer.send_signal(number)
        sniffer.wait()
    if number == signal.SIGKILL:
        assert b"<title>No report yet</title>" in page.read_bytes()
        return
    parts = Parts(page.read_bytes())
    targets = [json.loads(line)["request"]["target"] for line in parts.data["heads"].splitlines()]
    assert sorted(targets) == sorted(each.target for each in asked)
    assert parts.capture["source"] == "live capture"
