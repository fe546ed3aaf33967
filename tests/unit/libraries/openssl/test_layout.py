"""Object layouts read from real libraries, compared with the memory of real connections."""

import json
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.openssl.layout import read_openssl_layout
from sslsniff.matching.object_layout import ObjectLayout
from tests import libraries

OF_GO = {
    *("client", "sni_length", "handshakes", "socket_type"),
    *("handshake_error", "read_error"),
}
OF_GNUTLS = {"server_value", "version_base", "settled", "alert"}
OF_BORINGSSL = {"server_mask"}
BY_RELEASE = {"alpn_base", "random_base", "is_typed"}
ALWAYS = set(ObjectLayout._fields) - BY_RELEASE - OF_GO - OF_GNUTLS - OF_BORINGSSL


def layout_of(path: Path) -> ObjectLayout:
    with Elf(str(path)) as elf:
        return read_openssl_layout(elf)


@pytest.mark.tools
@pytest.mark.parametrize("series", libraries.OPENSSL)
def test_memory_says_what_the_accessors_say(series: str) -> None:
    library = libraries.library(series)
    layout = layout_of(library.path)
    known = {name for name, value in layout._asdict().items() if value is not None}
    assert known >= ALWAYS
    assert ("alpn_base" in known) is ("random_base" in known) is (series == "1.1.1")
    assert ("is_typed" in known) is (series >= "3.2")
    script = Path(__file__).with_name("ssl_object.py")
    told = json.loads(library.run(script, library.path, json.dumps(layout._asdict())))
    for accessors, memory in told.values():
        assert accessors == memory
    client, server = told["client"][1], told["server"][1]
    assert (client["server"], server["server"]) == (0, 1)
    assert (client["references"], server["references"]) == (1, 2)
    assert client["alpn"] == server["alpn"] == "spoken/1.1"
    assert client["sni"] == server["sni"] == "example.org"
    assert (client["shutdown"], server["shutdown"]) == (3, 3)
    assert client["cipher"] == server["cipher"] == "AECDH-AES128-SHA"
    assert client["version"] == server["version"] == 0x0303


@pytest.mark.heavy
def test_what_cannot_be_proved_is_unknown() -> None:
    # BoringSSL keeps the role in a bit, and the rest after a pointer.
    layout = layout_of(libraries.library("boringssl").path)
    assert layout.server is None
    assert layout.version is None
    assert layout.alpn is None
    assert layout.references is None
    assert layout.shutdown is None
    # A client's name is in the object, a server's in the handshake's state.
    assert None not in (layout.sni, layout.sni_base, layout.sni_inner)


@pytest.mark.tools
def test_a_file_without_the_accessors_has_no_layout() -> None:
    assert layout_of(libraries.library("wolfssl-5.5").path) == ObjectLayout()
