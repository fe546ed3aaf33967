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
    "tests/live/test_coroutines.py::test_every_exchange[probes-16-2]",
    "tests/live/test_curl.py::test_another_process_is_not_seen",
    "tests/live/test_openssl_cli.py::test_files",
    "tests/live/test_openssl_cli.py::test_plain_text",
    "tests/live/test_output.py::test_one_capture_in_all_forms",
    "tests/live/test_privileges.py::test_a_few_capabilities_are_enough",
    "tests/live/test_privileges.py::test_what_is_not_needed_is_dropped_and_what_comes_later_is_seen",
    "tests/live/test_processes.py::test_exec",
    "tests/live/test_python.py::test_asyncio",
    "tests/live/test_python.py::test_joined_in_the_middle",
    "tests/live/test_python.py::test_not_of_its_connection[probes-handshake_between.py]",
    "tests/live/test_python.py::test_not_of_its_connection[probes-plain_between.py]",
    "tests/live/test_sample.py::test_connections_are_left_out_whole[probes]",
    "tests/live/test_seccomp.py",
    "tests/live/test_hold.py::test_the_first_request_is_seen[fork]",
    "tests/live/test_hold.py::test_the_first_request_is_seen[block]",
    "tests/live/test_stdio.py::test_every_call[pipes]",
    "tests/live/test_stdio.py::test_every_call[sockets]",
)
FUNCTIONS = "tests/live/functions"
REFUSAL = f"{FUNCTIONS}/test_older_kernels.py"
TRACES = (
    REFUSAL,
    f"{FUNCTIONS}/test_conditions_live.py::test_the_kernel_counts_what_it_can_decide",
    f"{FUNCTIONS}/test_fetching_live.py::test_a_hit_has_room_for_what_is_fetched",
    f"{FUNCTIONS}/test_fetching_live.py::test_a_return_is_reported_by_trampoline",
    f"{FUNCTIONS}/test_fetching_live.py::test_a_semaphore_is_counted_up_while_it_is_probed",
    f"{FUNCTIONS}/test_fetching_live.py::test_long_items",
    f"{FUNCTIONS}/test_fetching_live.py::test_memory_that_was_never_used_is_read",
    f"{FUNCTIONS}/test_flow.py::test_indent_and_results[-O2]",
    f"{FUNCTIONS}/test_flow.py::test_under[-O2]",
    f"{FUNCTIONS}/test_flow.py::test_a_line_shows_its_locals[-O0]",
    f"{FUNCTIONS}/test_inlined.py::test_four_calls[debug-hello.rs]",
    f"{FUNCTIONS}/test_inlined.py::test_four_calls[O3-hello.rs]",
    f"{FUNCTIONS}/test_nops.py",
    f"{FUNCTIONS}/test_stacks_live.py::test_text_shows_the_stack_below_the_call",
    f"{FUNCTIONS}/test_tallies_live.py::test_a_call_is_known_by_the_stack_that_its_steps_compute",
    f"{FUNCTIONS}/test_tallies_live.py::test_calls_are_timed_if_their_condition_holds",
    f"{FUNCTIONS}/test_tallies_live.py::test_hits_are_counted_if_their_condition_holds",
)
"""Every program for tracing functions, once at least: older verifiers take less. And nops: kernels
differ in what they do to one that has a probe."""
RUST_PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("hello.rs", ()),
    ("hello.rs", ("-C", "opt-level=3")),
)
"""Source and flags of programs of these tests that a guest cannot build: it has no rustup."""


class Case(NamedTuple):
    """The kernel of a Debian suite, and what is asked of it."""

    suite: str
    series: str
    addresses: str
    loader: str = "co-re"
    tests: tuple[str, ...] = (*TESTS, *TRACES)
    programs: tuple[tuple[str, tuple[str, ...]], ...] = RUST_PROGRAMS
    emulator_threads: str = "single"
    guest_s: int = 3600
    """How long the guest may run: then it is switched off."""

    patience_s: int = 200
    """How long a test waits for what takes moments on a machine that is not emulated."""


CASES = (
    Case("bullseye", "5.10", "kprobes", tests=(*TESTS, REFUSAL), programs=()),
    Case("bookworm", "6.1", "kprobes"),
    # Compiling takes 4 s of CPU for the kernel's headers and 4 s for sslsniff: minutes in a guest.
    Case("bookworm", "6.1", "kprobes", "bcc", CURL[:2], (), patience_s=600),
    Case("trixie", "6.12", "tracepoints"),
    Case("sid", "7.", "tracepoints"),
)
"""Oldest first. A suite that moves on to another series needs a row of its own."""

BRIEF = CASES[0]._replace(
    tests=(*CURL[:2], TESTS[-1]), programs=(), emulator_threads="multi", guest_s=1200
)
"""What every ``make test-all`` asks: whether the oldest kernel still takes the programs."""
