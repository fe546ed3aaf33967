"""Which kernels run which live tests, with which loader, and how they tell of addresses."""

from typing import NamedTuple

CURL = (
    "tests/live/test_curl.py::test_keep_alive",
    "tests/live/test_curl.py::test_http2_parallel",
    "tests/live/test_curl.py::test_ipv6",
    "tests/live/test_curl.py::test_children_of_a_shell",
)
TESTS = (
    *CURL,
    "tests/live/test_containers.py::test_one_container_in_and_one_out[unit]",
    "tests/live/test_containers.py::test_a_container_that_starts_later_and_again",
    "tests/live/test_coroutines.py::test_every_exchange[16-2]",
    "tests/live/test_curl.py::test_another_process_is_not_seen",
    "tests/live/test_openssl_cli.py::test_files",
    "tests/live/test_openssl_cli.py::test_plain_text",
    "tests/live/test_output.py::test_one_capture_in_all_forms",
    "tests/live/test_privileges.py::test_a_few_capabilities_are_enough",
    "tests/live/test_privileges.py::test_what_is_not_needed_is_dropped_and_what_comes_later_is_seen",
    "tests/live/test_processes.py::test_exec",
    "tests/live/test_python.py::test_asyncio",
    "tests/live/test_python.py::test_joined_in_the_middle",
    "tests/live/test_seccomp.py",
    "tests/live/test_hold.py::test_the_first_request_is_seen[fork]",
    "tests/live/test_hold.py::test_the_first_request_is_seen[block]",
)


class Case(NamedTuple):
    """The kernel of a Debian suite, and what is asked of it."""

    suite: str
    series: str
    addresses: str
    loader: str = "co-re"
    tests: tuple[str, ...] = TESTS
    patience_s: int = 200
    """How long a test waits for what takes moments on a machine that is not emulated."""


CASES = (
    Case("bullseye", "5.10", "kprobes"),
    Case("bookworm", "6.1", "kprobes"),
    # Compiling takes 4 s of CPU for the kernel's headers and 4 s for sslsniff: minutes in a guest.
    Case("bookworm", "6.1", "kprobes", "bcc", CURL[:2], patience_s=600),
    Case("trixie", "6.12", "tracepoints"),
    Case("sid", "7.", "tracepoints"),
)
"""Oldest first. A suite that moves on to another series needs a row of its own."""

BRIEF = CASES[0]._replace(tests=CURL[:2])
"""What every ``make test`` asks: whether the oldest kernel still takes the programs."""
