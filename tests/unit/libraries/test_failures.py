"""The texts of errors are the libraries' own, and each kind is one that is explained."""

import ctypes
import subprocess

import pytest

from sslsniff.core.handshakes import HandshakeFacts, explain
from sslsniff.core.library_failure import LibraryFailure
from sslsniff.libraries.gnutls import failures as gnutls
from sslsniff.libraries.openssl import failures as openssl

_ERR_LIB_SSL = 20 << 23
_GNUTLS_CRT_X509 = 1


@pytest.mark.tools
@pytest.mark.parametrize("reason", openssl.REASONS)
def test_reasons_of_openssl(reason: int) -> None:
    command = ("openssl", "errstr", f"{_ERR_LIB_SSL | reason:X}")
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.rstrip().rpartition(":")[2] == openssl.REASONS[reason][1]


@pytest.mark.tools
@pytest.mark.parametrize("result", openssl.VERIFICATION)
def test_verification_of_openssl(result: int) -> None:
    library = ctypes.CDLL("libcrypto.so.3")
    library.X509_verify_cert_error_string.restype = ctypes.c_char_p
    shown = library.X509_verify_cert_error_string(ctypes.c_long(result)).decode()
    assert shown == openssl.VERIFICATION[result][1]


@pytest.mark.tools
@pytest.mark.parametrize("flag", gnutls.FLAGS, ids=lambda flag: f"{flag[0]:#x}")
def test_flags_of_gnutls(flag: tuple[int, str, str]) -> None:
    class Datum(ctypes.Structure):
        _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_uint))

    library, datum = ctypes.CDLL("libgnutls.so.30"), Datum()
    library.gnutls_certificate_verification_status_print(
        flag[0], _GNUTLS_CRT_X509, ctypes.byref(datum), 0
    )
    assert datum.data is not None
    assert flag[2].casefold() in datum.data.decode().casefold()


KINDS = {
    kind
    for kind, *_ in (*openssl.REASONS.values(), *openssl.VERIFICATION.values())
    if kind is not None
} | {kind for _, kind, _ in gnutls.FLAGS}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds_are_explained(kind: str) -> None:
    assert explain(HandshakeFacts(kind=kind), None, None).is_failure


def test_an_alert_that_was_received() -> None:
    assert openssl.failure(1048, 0) == LibraryFailure(received_alert=48)
    assert gnutls.failure(48, 0) == LibraryFailure(received_alert=48)


def test_what_says_nothing() -> None:
    assert openssl.failure(0, 0) == openssl.failure(0, None) == LibraryFailure()
    assert gnutls.failure(0, None) == LibraryFailure()
    assert openssl.failure(7, None) == LibraryFailure(text="reason 7")
