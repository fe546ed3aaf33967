"""Headless Chromium, with a page that makes requests and says what passed."""

import json
import re
from pathlib import Path

PAGE = Path(__file__).with_name("fetches.html")
PROGRAM = Path("/usr/bin/chromium")
_TOLD = re.compile(r'<pre id="told">(.*?)</pre>', re.DOTALL)
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-quic", "--disable-dev-shm-usage", "--ignore-certificate-errors"),
)
_MOST_MS = 120_000


def browsing(url: str, profile: Path, *options: str) -> list[str]:
    """Return the command that opens ``url`` and prints the page when its requests are over."""
    own = (f"--user-data-dir={profile}", f"--virtual-time-budget={_MOST_MS}", "--dump-dom")
    return [str(PROGRAM), *_OPTIONS, *own, *options, url]


def said(page: str) -> list[dict[str, str]]:
    """Return what the printed page says of each request: nonce, and the hash of both bodies."""
    [told] = _TOLD.findall(page)
    return [json.loads(line) for line in told.splitlines()]
