"""What people read of the decision about a file."""

from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.explained import explained
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import (
    Attachment,
    KeyLog,
    Probe,
    ProbedLibrary,
    Refusal,
    Unprobed,
)

PROBES = (
    Probe("c_return", 16, False, Cost.STEPPED),
    Probe("c_call_enter", 32, False, Cost.STEPPED),
    Probe("c_return", 48, False, Cost.STEPPED),
)
WOLFSSL = Unprobed("wolfssl", "wolfSSL", "5.9", "no place", "build it with symbols")


def test_probed() -> None:
    part = ProbedLibrary(
        "openssl",
        PROBES,
        ObjectLayout(),
        "3.0",
        found_by="errors in its code",
        key_log=KeyLog((), "none"),
    )
    result = Attachment("f", None, (part,), ("SSL_sendfile",), "/debug", (WOLFSSL,))
    assert list(explained(result)) == [
        "its symbols are in /debug",
        "openssl 3.0 is probed at 3 places, found by errors in its code: c_call_enter, c_return",
        "openssl 3.0: no secrets: none",
        "left out: SSL_sendfile",
        "wolfSSL 5.9 is not probed: no place; build it with symbols",
    ]


def test_refused() -> None:
    assert list(explained(Refusal("it is empty"))) == ["no probes: it is empty"]
    assert list(explained(Refusal("it is empty", remedy="name another"))) == [
        "no probes: it is empty; name another"
    ]
    assert list(explained(Refusal("x", True, "", (WOLFSSL,)))) == [
        "wolfSSL 5.9 is not probed: no place; build it with symbols"
    ]
