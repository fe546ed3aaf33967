"""Whom sslsniff becomes under sudo."""

import errno
import os

import pytest

from sslsniff.core.errors import PrivilegeError
from sslsniff.kernel import privileges, release
from sslsniff.kernel.loaders import libbpf


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        (["CAP_BPF"], "root has not all rights here, as in a container: add them (docker run"),
        ([], "raise the limit (ulimit -l unlimited)"),
    ],
)
def test_root_on_old_kernels_is_not_told_to_be_root(
    missing: list[str], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 5.11 the kernel refuses maps beyond RLIMIT_MEMLOCK in the same way."""
    monkeypatch.setattr(release, "counts_maps_as_locked", lambda: True)
    monkeypatch.setattr(privileges, "missing", lambda: missing)
    assert libbpf._load_error(errno.EPERM).remedy.startswith(remedy)


@pytest.mark.parametrize("number", ["0", "1000", "4294967294"])
def test_ids_that_sudo_sets(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert privileges.caller() is None
    monkeypatch.setenv("SUDO_UID", number)
    monkeypatch.setenv("SUDO_GID", "7")
    assert privileges.caller() == (int(number), 7)


NO_IDS = [
    "",
    "root",
    "-1",
    "4294967295",
    "4294967296",
    "9" * 5000,
    "1e3",
    " 1",
    "1_0",
    "\u0661",
    "0x0",
]


@pytest.mark.parametrize("text", NO_IDS)
@pytest.mark.parametrize("name", ["SUDO_UID", "SUDO_GID"])
def test_what_is_no_id_is_refused(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """-1 would mean "no change" to setresuid and chown: sslsniff would stay root."""
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1000")
    monkeypatch.setenv(name, text)
    with pytest.raises(PrivilegeError, match=f"^{name} is .*not an id") as raised:
        privileges.caller()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("name", ["SUDO_UID", "SUDO_GID"])
def test_one_without_the_other_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1000")
    with pytest.raises(PrivilegeError, match=r"SUDO_.ID is not set"):
        privileges.caller()
