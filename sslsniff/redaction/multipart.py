"""Finds the boundary of multipart bodies (RFC 2046 section 5.1.1), and where a part ends.

Parsers differ: some take any line that begins with the boundary for the end of a part, others only
a line that is the boundary and nothing else. A secret ends where it ends for all of them: at such a
line, whose ends of lines are those of the part. What the former take for the head of another part
is searched as any text is.
"""

import functools
import re
from typing import NamedTuple

from sslsniff.decoders.messages import Headers

_LONGEST_BOUNDARY = 128
"""RFC 2046 allows 70 bytes."""
_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)


class BodyParts(NamedTuple):
    """The parts of a ``text``, in its own case; the ``boundary`` is empty if it is not known."""

    text: bytes | bytearray = b""
    boundary: bytes = b""
    is_whole: bool = True

    def find_end(self, at: int) -> tuple[int, int] | None:
        """Return where the part ends whose head ends at ``at``, and where the next line begins."""
        if not self.boundary:
            return None
        has_cr = self.text[at - 2 : at] == b"\r\n"
        delimiter = _delimiter(self.boundary, has_cr=has_cr, is_whole=self.is_whole)
        found = delimiter.search(self.text, max(0, at - 1 - has_cr))
        return None if found is None else (max(at, found.start()), found.start("line"))


@functools.lru_cache(maxsize=64)
def _delimiter(boundary: bytes, *, has_cr: bool, is_whole: bool) -> re.Pattern[bytes]:
    """Return the pattern of a line that ends a part, with the end of the line before it."""
    newline = rb"\r\n" if has_cr else rb"\r?\n"
    end = rb"(?:" + newline + rb"|\Z)" if is_whole else newline
    return re.compile(newline + rb"(?P<line>--)" + re.escape(boundary) + rb"(?:--)?[ \t]*" + end)


def said_boundary(headers: Headers) -> bytes | None:
    """Return the boundary of a message by its ``headers``: empty if there are several, or too long.

    None if they say none.
    """
    said = {
        (found[1] or found[2]).encode("latin-1", "replace")
        for name, value in headers
        if name is not None and value is not None and name.lower() == "content-type"
        if value.lower().startswith("multipart/")
        for found in _BOUNDARY.finditer(value)
    }
    if not said:
        return None
    boundary = said.pop()
    return b"" if said or len(boundary) > _LONGEST_BOUNDARY else boundary


def first_boundary(text: bytearray) -> bytes | None:
    """Return the same by how a multipart begins; empty if it is none, None if not known yet."""
    line, end, _ = text[:_LONGEST_BOUNDARY].partition(b"\n")
    if not b"--".startswith(line[:2]) or (not end and len(line) == _LONGEST_BOUNDARY):
        return b""
    return bytes(line[2:].rstrip()) if end else None
