"""``--tree`` shows exchanges also beside other text, which shows none by itself."""

from pathlib import Path

import pytest

from sslsniff.cli.main import main

CAPTURE = Path(__file__).parents[3] / "pcaps/http2-multiplexed.pcapng"


@pytest.mark.parametrize("text", ["--hexdump", "--frames"])
def test_trees_beside_other_text(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    def lines(*options: str) -> set[str]:
        assert main(["read", str(CAPTURE), *options]) == 0
        return set(capfd.readouterr().out.splitlines())

    exchanges = {each for each in lines("--tree") if "https://" in each}
    assert exchanges
    assert not exchanges & lines(text)
    assert exchanges <= lines(text, "--tree")
