"""The agent's file: what it means, and what is said of a wrong one."""

from pathlib import Path

import pytest

from sslsniff.cli.agent.configuration import read
from sslsniff.core.errors import ConfigurationError

WHOLE = """\
[watch]
units = ["nginx.service", "app"]
pids = [12, 34]
filter = "~m POST"

[redact]
patterns = ["card=[0-9]+"]

[limits]
cpu = 0.2
memory = "512M"
disk = "1G"

[parquet]
folder = "/var/lib/tables"
seconds = 30

[kafka]
brokers = "a:9092,b:9092"
topic = "plaintext"
raw = true

[health]
listen = "[::1]:9464"
"""


def configured(text: str, folder: Path) -> Path:
    file = folder / "agent.toml"
    file.write_text(text)
    return file


def test_a_whole_file(tmp_path: Path) -> None:
    found = read(str(configured(WHOLE, tmp_path)))
    assert found.arguments == (
        "--unit=nginx.service",
        "--unit=app",
        "--pid=12",
        "--pid=34",
        "~m POST",
        "--redact-pattern=card=[0-9]+",
        "--most-cpu=0.2",
        "--parquet=/var/lib/tables",
        "--parquet-seconds=30",
        "--kafka=a:9092,b:9092",
        "--topic=plaintext",
        "--raw",
        "--redact",
    )
    assert (found.memory_bytes, found.disk_bytes) == (512 << 20, 1 << 30)
    assert found.tables == Path("/var/lib/tables")
    assert found.health == ("::1", 9464)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("[otlp]\nurl = 'http://c:4317'", ["--no-redact"]),
        ("[parquet]\nfolder = 's3://b/f'", ["--no-redact"]),
        ("[lines]\njson = true", []),
    ],
)
def test_without_redaction(output: str, said: list[str], tmp_path: Path) -> None:
    text = f"watch.all = true\nredact.enabled = false\n{output}\n"
    found = read(str(configured(text, tmp_path)))
    assert [each for each in found.arguments if "redact" in each] == said


LINES = "[watch]\nall = true\n[lines]\njson = true\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINES + "[limits]\ncpu = 99999", ", line 6: limits.cpu: '99999' is not a share of a"),
        (LINES + "[limits]\ncpu = 'x'", ", line 6: limits.cpu is not a number: write it so"),
        (LINES + "[limits]\nmemory = '5x'", ", line 6: limits.memory: '5x' is not a size such"),
        (LINES + "[limits]\ndisk = '5G'", ", line 6: limits.disk is for a folder of tables: set"),
        (LINES + "\n[limit]\ncpu = 1", ", line 6: unknown table [limit]: did you mean limits?"),
        ("[watch]\npid = [1]", ", line 2: unknown setting watch.pid: did you mean pids?"),
        ("[watch]\nzzz = 1", ", line 2: unknown setting watch.zzz: use one of all, pids, "),
        ("[watch]\npids = [true]", ", line 2: watch.pids is not a list of numbers: write it so"),
        ("[watch]\nnames = ['']", ", line 2: watch.names is not a list of texts: write it so"),
        ("[watch]\nall = true", " has no output: add one of otlp, kafka, parquet, lines"),
        ("[lines]\njson = true", ": what to watch is missing: watch.pids, watch.names, "),
        (LINES + "[health]\nlisten = '0.0.0.0:9'", ", line 6: health.listen: '0.0.0.0:9' is no "),
        (LINES + "[health]\nlisten = '127.0.0.1:0'", ", line 6: health.listen: '127.0.0.1:0' is"),
        (LINES + "[kafka]\nbrokers = 'a:1'", ": kafka.brokers needs a topic: kafka.topic TOPIC"),
        ("watch = 3", ", line 1: watch is a table: write [watch], and its settings below"),
        ("\n[[watch]]\nall = true", "watch is a table: write [watch], and its settings below"),
        (LINES + "[limits]\nmemory = '0'", ", line 6: limits.memory: '0' is less than 1M: leave"),
        (LINES + "[limits]\ndisk = '9'", ", line 6: limits.disk: '9' is less than 1K: leave"),
        (
            LINES + "[otlp]\nurl = 'http://::1:4317'",
            "otlp.url: 'http://::1:4317' has an IPv6 address without brackets, as in http://[::1]:",
        ),
        (LINES + "[otlp]\nurl = 'http://fe80::1'", "has an IPv6 address without brackets"),
        (LINES + "[health]\nlisten = '::1:9464'", "use 127.0.0.1:9464 or [::1]:9464"),
        (LINES + "[models]\nprices = '/none.toml'", ", line 6: models.prices: cannot read /none"),
        ("[watch", " is not TOML: "),
        (LINES.replace("all = true", "all = true\nfilter = '~m ('"), ", line 3: watch.filter: "),
        (None, "cannot read "),
    ],
)
def test_a_wrong_file(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read(str(file))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
