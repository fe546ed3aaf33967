"""What is seen of a row, or of a line, that is too wide."""

import pytest

from sslsniff.screen.captured.capture_rows import ConnectionRow, ExchangeRow
from sslsniff.screen.contents.list_columns import exchange_columns
from sslsniff.screen.widgets.line_view import _height, _parts

ORIGIN = {
    "connection": "7-1", "time": None, "pid": 7, "comm": "curl", "library": "openssl", "role": None,
}  # fmt: skip


def fitted(url: str, remark: str, columns: int, operation: str = "") -> str:
    row = ExchangeRow(1, ConnectionRow(ORIGIN))
    row.url, row.remark = url, remark
    row.method, row.is_statement = operation, bool(operation)
    fit = exchange_columns(str)[-1].fit
    assert fit is not None
    return fit(row, columns)


@pytest.mark.parametrize(
    ("url", "remark", "columns", "shown"),
    [
        (
            "https://localhost:25000/reserve/sku-17",
            "",
            40,
            "https://localhost:25000/reserve/sku-17",
        ),
        ("https://localhost:25000/reserve/sku-17", "", 30, "localhost:25000/reserve/sku-17"),
        ("https://localhost:25000/reserve/sku-17", "", 26, "localhost:…/reserve/sku-17"),
        ("https://localhost:25000/reserve/sku-17", "", 20, "localho…/reserve/sk…"),
        (
            "https://localhost:25000/reserve/sku-17",
            "connection closed",
            40,
            "localho…/reserve/sku…  connection closed",
        ),
        ("/demo.Echo/Chat", "", 10, "/demo.Ech…"),
    ],
)
def test_a_url_that_is_too_wide(url: str, remark: str, columns: int, shown: str) -> None:
    assert fitted(url, remark, columns) == shown


def test_a_statement_that_is_too_wide() -> None:
    """Its beginning and its parameters are seen; its first word stands in a column of its own."""
    text = "UPDATE stock SET reserved = reserved + 1 WHERE sku = $1  [sku-17]"
    shown = "stock SET reserved = rese…  [sku-17]  1 row"
    assert fitted(text, "1 row", len(shown), "UPDATE") == shown


@pytest.mark.parametrize(
    ("text", "columns", "parts"),
    [
        ("HEADER_TABLE_SIZE 4096 ENABLE_PUSH 0", 24, ["HEADER_TABLE_SIZE 4096 ", "ENABLE_PUSH 0"]),
        ("a" * 25, 10, ["a" * 10, "a" * 10, "a" * 5]),
        ("a " + "b" * 17, 10, ["a bbbbbbbb", "bbbbbbbbb"]),  # the only space is far
        ("0123456789 123456789", 10, ["0123456789", " 123456789"]),
        ("日本語日本語", 5, ["日本", "語日", "本語"]),
    ],
)
def test_a_line_is_broken_at_a_space_that_is_near(
    text: str, columns: int, parts: list[str]
) -> None:
    assert _parts(text, columns) == parts
    assert _height(text, columns) == len(parts)
    assert "".join(parts) == text
