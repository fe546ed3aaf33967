"""Which processes and libraries the filters of a user mean."""

import os

import pytest

from sslsniff.capture.scope import Scope
from sslsniff.core.errors import TargetError
from sslsniff.kernel import procfs

OWN = procfs.RunningProcess(70, "nginx: worker", 1000, "/usr/sbin/nginx", 1, False, False)


@pytest.mark.parametrize(
    ("scope", "included"),
    [
        (Scope(), True),
        (Scope(uids=(0, 1000)), True),
        (Scope(uids=(0,)), False),
        (Scope(comms=("nginx",)), True),  # its program's name
        (Scope(comms=("nginx: worker",)), True),
        (Scope(comms=("ngin",)), False),
        (Scope(comms=("nginx",), uids=(0,)), False),
    ],
)
def test_all_filters_must_match(scope: Scope, included: bool) -> None:
    assert scope.includes(OWN) is included


def test_names_are_as_long_as_the_kernel_has_them() -> None:
    long = OWN._replace(comm="a-program-with-a", exe="/bin/a-program-with-a-long-name")
    assert Scope(comms=("a-program-with-a-long-name",)).includes(long)


def test_processes_are_those_that_were_asked_for() -> None:
    own = os.getpid()
    assert [each.pid for each in Scope(pids=(own,), follows_children=False).processes()] == [own]
    assert own in {each.pid for each in Scope(uids=(os.geteuid(),)).processes()}
    assert own in Scope(pids=(os.getppid(),)).current_pids()
    with pytest.raises(TargetError, match="there is no process 4194304: see ps"):
        list(Scope(pids=(4_194_304,)).processes())  # above any pid_max


@pytest.mark.parametrize(
    ("path", "name", "named"),
    [
        ("/usr/lib/libssl.so.3", "ssl", True),
        ("/usr/lib/libssl.so.3", "libssl", True),
        ("/usr/lib/libssl.so.3", "libssl.so", True),
        ("/usr/lib/libssl.so.3", "libssl.so.3", True),
        ("/usr/lib/libssl.so.3", "/usr/lib/libssl.so.3", True),
        ("/lib/libssl.so.3", "/usr/lib/libssl.so.3", False),
        ("/usr/lib/libssl.so.3", "libssl.so.1", False),
        ("/usr/lib/libssl.so.3", "crypto", False),
        ("/usr/lib/libssl3.so", "ssl", False),  # NSS has this one
        ("/x/libssl-1a2b3c4d.so.3", "ssl", True),  # in wheels of Python packages
        ("/usr/bin/openssl", "ssl", False),
    ],
)
def test_names_of_libraries(path: str, name: str, named: bool) -> None:
    assert Scope(libraries=(name,)).includes_file(path) is named


def test_without_names_any_file_is_meant() -> None:
    assert Scope().includes_file("/usr/bin/openssl")
