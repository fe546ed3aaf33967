"""What is left of the rate of services in other languages: Rust, with rustls linked in."""

import functools
from collections.abc import Iterator

from bench.http_load import PROTOCOLS, saturated
from bench.left import compare
from bench.loads import own_folder
from bench.rows import Row
from tests.workload.rust.fixtures import Fixture
from tests.workload.servers import built_server

_SERVER = Fixture("server", "rustls-0-23-ring", "release")
_REQUESTS = 50_000


def measure() -> Iterator[Row]:
    """Ask as fast as it goes for bodies of 1 KB."""
    with (
        own_folder() as (folder, certificate),
        built_server(_SERVER.path, certificate) as server,
    ):
        url = f"https://127.0.0.1:{server.port}/bytes/1024"
        for protocol in PROTOCOLS:
            rate = functools.partial(_rate, url, protocol)
            what = f"Rust with rustls 0.23, {protocol}"
            yield from compare(what, rate, folder, ["--pid", str(server.pid)])


def _rate(url: str, protocol: str) -> float:
    return saturated(url, protocol, _REQUESTS).rate
