"""The texts of errors are the libraries' own, and each kind is one that is explained."""

import ctypes
import subprocess
import sys
from collections.abc import Iterable

import pytest

from sslsniff.core.handshakes import HandshakeFacts, explain
from sslsniff.core.library_failure import LibraryFailure
from sslsniff.libraries.gnutls import failures as gnutls
from sslsniff.libraries.nss import failures as nss
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


def names_of_nss(errors: Iterable[int]) -> list[str]:
    """Return the names that NSPR has for NSS's errors, once NSS has registered them."""
    script = (
        "import ctypes, sys\n"
        "ctypes.CDLL('libnss3.so').NSS_NoDB_Init(None)\n"
        "ctypes.CDLL('libssl3.so').SSL_OptionSetDefault(1, 1)\n"
        "name = ctypes.CDLL('libnspr4.so').PR_ErrorToName\n"
        "name.restype = ctypes.c_char_p\n"
        "print(*(name(-int(each)).decode() for each in sys.argv[1:]))\n"
    )
    command = (sys.executable, "-c", script, *map(str, errors))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.tools
def test_reasons_of_nss() -> None:
    assert names_of_nss(nss.REASONS) == [name for _, name in nss.REASONS.values()]


@pytest.mark.tools
def test_alerts_of_nss() -> None:
    """Their names are those of errors for alerts that were received."""
    assert {name.rpartition("_")[2] for name in names_of_nss(nss.ALERTS)} == {"ALERT"}


KINDS = {
    kind
    for kind, *_ in (
        *openssl.REASONS.values(),
        *openssl.VERIFICATION.values(),
        *nss.REASONS.values(),
    )
    if kind is not None
} | {kind for _, kind, _ in gnutls.FLAGS}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds_are_explained(kind: str) -> None:
    assert explain(HandshakeFacts(kind=kind), None, None).is_failure


def test_an_alert_that_was_received() -> None:
    assert openssl.failure(1048, 0) == LibraryFailure(received_alert=48)
    assert gnutls.failure(48, 0) == LibraryFailure(received_alert=48)
    assert nss.failure(48, None) == nss.failure(0, 12195) == LibraryFailure(received_alert=48)


@pytest.mark.parametrize(
    ("error", "verified", "alert"), [(134, 10, 45), (134, 62, 42), (0, 10, None)]
)
def test_an_alert_that_is_sent(error: int, verified: int, alert: int | None) -> None:
    """OpenSSL sends one for a certificate, unless the program gives the connection up."""
    assert openssl.failure(error, verified).sent_alert == alert


def test_what_says_nothing() -> None:
    assert openssl.failure(0, 0) == openssl.failure(0, None) == LibraryFailure()
    assert gnutls.failure(0, None) == nss.failure(0, None) == LibraryFailure()
    assert nss.failure(0, 12000) == LibraryFailure(text="error -12000")
    assert openssl.failure(7, None) == LibraryFailure(text="reason 7")
