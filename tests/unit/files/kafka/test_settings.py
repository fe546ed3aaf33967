"""The settings of librdkafka from a file."""

from pathlib import Path

import pytest

from sslsniff.core.errors import KafkaError
from sslsniff.files.kafka.settings import settings


def test_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# our cluster\n\n security.protocol = SSL \nssl.ca.location=/a=b\n")
    assert settings("a:9092,b:9092", str(file)) == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SSL",
        "ssl.ca.location": "/a=b",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"acks", ", line 1: no NAME=VALUE: write one setting a line"),
        (b"\n=all", ", line 2: no NAME=VALUE: write one setting a line"),
        (b"group.id=x", ", line 1: group.id is not up to this file: leave it out"),
        (b"\xff\xfe", ": it is no text: name a file of properties"),
        (None, ": No such file or directory: name a file of properties"),
    ],
)
def test_a_file_that_is_wrong(text: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(KafkaError) as error:
        settings("a:9092", str(file))
    assert str(error.value).endswith(f"{file}{said}")
