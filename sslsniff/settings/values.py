"""Parses the values of options: each function is the ``type`` of an option.

They raise ``argparse.ArgumentTypeError``, which the parser reports with the option's name.
"""

import argparse
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

SMALLEST_RING_BYTES = 4 << 20
"""A ring of this size has room for several of the largest records."""
MOST_CALL_BYTES = 16 << 20
"""Less than the BPF programs can emit of a call: bpf/data.bpf.h."""

SMALLEST_FILE_BYTES = 4 << 20
"""A capture file of this size has room for several batches of packets (files/pcap.py)."""

_LARGEST_RING_BYTES = 1 << 30
_LARGEST_SPILL_BYTES = 1 << 40
_MOST_PID = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h
_MOST_SECONDS = 86400
_MOST_JOBS = 256
_MOST_UID = (1 << 32) - 2  # (uid_t) -1 means nobody
_LEAST_PROCESSOR = 0.01
_MOST_LINE = (1 << 31) - 1
_MOST_COUNT = 1_000_000_000
_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_SUFFIXES = {"k": 10, "m": 20, "g": 30}


def _whole_number(text: str, least: int, most: int, what: str) -> int:
    if not text.isdecimal() or not least <= int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)


def process_id(text: str) -> int:
    """Return the process id in ``text``."""
    is_list = re.fullmatch(r"\d+([,\s]+\d+)+", text)
    remedy = "repeat --pid for each" if is_list else f"see pgrep, or use --comm {text}"
    return _whole_number(text, 1, _MOST_PID, f"the number of a process: {remedy}")


def user_id(text: str) -> int:
    """Return the user id in ``text``."""
    return _whole_number(text, 0, _MOST_UID, "the number of a user, as id -u NAME shows it")


def jobs(text: str) -> int:
    """Return the number of processes in ``text``."""
    return _whole_number(text, 1, _MOST_JOBS, f"a number of processes from 1 to {_MOST_JOBS}")


def stream_number(text: str) -> int:
    """Return the number of an HTTP/2 stream in ``text``: 31 bits (RFC 9113 section 5.1.1)."""
    return _whole_number(text, 0, (1 << 31) - 1, "the number of an HTTP/2 stream")


_IPV6_URL = re.compile(r"https?://[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.%]*(/|$)")


def http_url(text: str) -> str:
    """Return ``text``, an http or https URL with a host."""
    from urllib.parse import urlsplit  # costs 3 ms to import

    try:
        found = urlsplit(text)
        is_url = found.scheme in {"http", "https"} and bool(found.hostname) and found.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        if _IPV6_URL.match(text):
            raise argparse.ArgumentTypeError(
                f"{text!r} has an IPv6 address without brackets, as in http://[::1]:4317"
            )
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as http://127.0.0.1:4317")
    return text


def name(text: str) -> str:
    """Return ``text``, which must not be empty."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


def size(text: str) -> int:
    """Return a size in bytes: ``text`` is a number, maybe with K, M or G (powers of 1024)."""
    found = re.fullmatch(r"([0-9]{1,18})([kmg]?)(?:i?b)?", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 65536, 64K or 16M")
    return int(found[1]) << _SUFFIXES.get(found[2], 0)


def ring_size(text: str) -> int:
    """Return the size in ``text`` of a ring buffer."""
    number = size(text)
    if number & (number - 1) or not SMALLEST_RING_BYTES <= number <= _LARGEST_RING_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a power of two from 4M to 1G")
    return number


def spill_size(text: str) -> int:
    """Return the size in ``text`` of a file beside the ring buffer."""
    number = size(text)
    if not SMALLEST_RING_BYTES <= number <= _LARGEST_SPILL_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 4M to 1024G")
    return number


def file_size(text: str) -> int:
    """Return the size in ``text`` of a capture file that others may follow."""
    number = size(text)
    if number < SMALLEST_FILE_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of 4M or more")
    return number


def call_limit(text: str) -> int:
    """Return the size in ``text``: how much plaintext of a call is captured at most."""
    number = size(text)
    if not 0 < number <= MOST_CALL_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 1 to 16M")
    return number


def seconds(text: str) -> int:
    """Return the number of seconds in ``text``."""
    return _whole_number(text, 1, _MOST_SECONDS, f"a number of seconds from 1 to {_MOST_SECONDS}")


def duration(text: str) -> int:
    """Return the nanoseconds of a duration in ``text``, such as 10ms."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|s|m)", text)
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration such as 500us, 10ms, 1.5s or 2m"
        )
    return round(float(found[1]) * _NANOSECONDS[found[2]])


def count(text: str) -> int:
    """Return the number in ``text``, which is more than 0."""
    return _whole_number(text, 1, _MOST_COUNT, "a number of 1 or more")


def whole_count(text: str) -> int:
    """Return the number in ``text``, which may be 0."""
    return _whole_number(text, 0, _MOST_COUNT, "a number of 0 or more")


def source_line(text: str) -> tuple[str, int]:
    """Return the file and the line in ``text``, such as main.c:36."""
    file, _, number = text.rpartition(":")
    what = "a line of a source file such as main.c:36"
    line = _whole_number(number, 1, _MOST_LINE, what) if number.isdecimal() else 0
    if not file or not line:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return file, line


def address(text: str) -> int:
    """Return the address in ``text``, such as 0x1139."""
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as 0x1139")
    return int(text, 16)


def share(text: str) -> float | None:
    """Return the share of connections in ``text``, such as 1/10; None for ``auto``."""
    if text == "auto":
        return None
    if not re.fullmatch(r"[0-9]{1,7}/[0-9]{1,7}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 1/10")
    part, whole = map(int, text.split("/"))
    if not 0 < part <= whole:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of more than 0, and 1 at most")
    return part / whole


def processor_share(text: str) -> float:
    """Return the share of one processor in ``text``, such as 0.2; more than 1: several."""
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})?", text) or float(text) < _LEAST_PROCESSOR:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of a processor such as 0.2")
    return float(text)


def pattern(text: str) -> re.Pattern[str]:
    """Return the regular expression in ``text``, compiled."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression ({error})") from error


def function_pattern(text: str) -> str:
    """Return ``text``, a regular expression that is searched in names of functions."""
    return pattern(name(text)).pattern


def bytes_pattern(text: str) -> "regex.Pattern[bytes]":
    """Return the regular expression over bytes in ``text``; it must not match the empty string."""
    import regex  # for redaction only: it finds matches that continue in the next bytes

    try:
        compiled = regex.compile(os.fsencode(text))
    except regex.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression ({error})") from error
    if compiled.match(b""):
        raise argparse.ArgumentTypeError(f"{text!r} also matches the empty string")
    return compiled
