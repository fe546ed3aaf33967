"""Decides which connection a segment belongs to where several have equal addresses and ports.

The *path* of a segment is the interface that captured it and what the layers around it say of
their network: VLAN, virtual network, tunnel key, labels, the outer addresses. Two facts pull in
opposite directions:

- Networks may use the same addresses, so equal addresses on two paths may be two connections.
- One connection may be captured on several paths: a port that mirrors both sides of a router, a
  VLAN before and after its tag is taken off, `-i any`, two taps, a tunnel inside and outside.
  And its two directions may have paths of their own, each only once: tunnels with a number for each
  direction (GTP, MPLS, L2TP), mirrors that tag by direction, routes that differ.

So the path decides nothing by itself. What decides are numbers and bytes:

1. A path has one connection of these addresses at a time. Once a path and sender are bound to a
   connection, their next segments belong to it, until a SYN begins another one there. This needs
   no look at numbers, so a gap or an odd number changes nothing, as in a capture with one path.
2. On a path that is not bound, a segment belongs to the connection that it fits, by its numbers.
   A SYN fits if its initial number is that of the connection's SYN. A SYN-ACK fits if it
   acknowledges exactly that. Any other segment fits if its number and its acknowledgement are
   within a usual window of what each side sends next. Initial numbers are random numbers of 32 bits
   (RFC 6528): that two connections fit by chance has a probability below 2^-20. If several fit,
   the nearest does, and of equals the one whose other direction is on this path. Fits none: it
   belongs to the connection whose other direction is on this path, or begins a new one.
3. Initial numbers may be equal all the same: simple stacks count from a constant, and captures are
   written by programs. Then both directions are taken to be on one path, and the bytes have the
   last word. While a connection is seen on several paths, what each path carries is compared with
   the same positions of the others. Bytes that differ prove two connections: what the path has
   carried so far is taken from the connection, and fed to one of its own. Bytes that the same path
   carried before are not compared: a keep-alive probe repeats one with any value (RFC 9293 section
   3.8.4). Nothing was shown wrongly: up to there both carried the same. A path that agreed for
   ``_COMPARED_BYTES`` is a copy for good.
4. A copy may lag: the connection has closed on one path when it begins on the other. Closed
   connections are remembered, and a copy of one adds nothing. On the path that it was seen on, the
   same SYN begins a new connection, as in a capture with one path.

Equal numbers and equal bytes on two paths are one connection, whatever else they may have been:
nothing in the packets could tell them apart. A connection that sslsniff recorded has a name: it is
a copy only of one with this name.

Cost: most captures have one path. What their first packets carry is kept, as a second path may show
up; from ``_FIRST_SEGMENTS`` on it is not, until it does. Memory: ``_KEPT_BYTES`` in all.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sslsniff.files.comments import Described
from sslsniff.files.packet_layers.identities import Path
from sslsniff.files.packet_layers.segments import advance, is_before, nearest_position
from sslsniff.files.packet_layers.tcp_segment import AddressPort, Segment
from sslsniff.files.packets import ACK, FIN, RST, SYN, WORD
from sslsniff.files.tcp_connections.recorded import USUAL_WINDOW_BYTES, Tag, TcpConnection

_COMPARED_BYTES = 16 << 10
"""How much a path carries, in both directions, until it is known to be a copy."""
_COMPARED_SEGMENTS = 64
_FIRST_SEGMENTS = 1024
"""How many segments of a capture are kept while it has one path."""
_KEPT_BYTES = 16 << 20
"""Most bytes that are kept to be compared; beyond, the oldest connection's are dropped."""
_SEGMENT_BYTES = 300
"""Memory of a kept segment beside its payload."""

Ends = tuple[AddressPort, AddressPort]
"""Both sides of a connection, in a fixed order."""
Key = tuple[AddressPort, AddressPort] | tuple[AddressPort, AddressPort, int]
"""Identifies a connection of a capture: its ends, and a number if others have the same ends."""
FullPath = tuple[int, Path]
"""Interface, and layers."""


class Kept(NamedTuple):
    """A segment that a path carried."""

    segment: Segment
    tag: Tag


class _Carried:
    """What one path carried of a connection."""

    def __init__(self, *, is_copy: bool) -> None:
        self.kept: list[Kept] = []
        self.bytes = 0
        self.is_copy = is_copy
        """Whether nothing is compared any more."""
        self._reached: dict[AddressPort, int] = {}

    def add(self, segment: Segment, tag: Tag) -> int:
        """Keep a segment, unless it has nothing to compare; return the memory that it takes."""
        if self.is_copy or not (segment.size or segment.flags & (SYN | FIN | RST)):
            return 0
        if self.bytes > _COMPARED_BYTES or len(self.kept) >= _COMPARED_SEGMENTS:
            self.is_copy = True
            return 0
        end = advance(segment.sequence, segment.size + bool(segment.flags & SYN))
        reached = self._reached.get(segment.source)
        if reached is None or is_before(reached, end):
            self._reached[segment.source] = end
        self.kept.append(Kept(segment, tag))
        self.bytes += len(segment.payload) + _SEGMENT_BYTES
        return len(segment.payload) + _SEGMENT_BYTES

    def new_from(self, segment: Segment) -> int:
        """Return the index of the first byte of ``segment`` that this path had not carried."""
        reached = self._reached.get(segment.source)
        if reached is None:  # a single byte may be a keep-alive probe
            return 0 if segment.size > 1 else 1
        return max(0, nearest_position(reached, segment.sequence) - segment.sequence)

    def differs(self, segment: Segment, start: int) -> bool:
        """Return whether bytes of ``segment`` from ``start`` differ from those carried here."""
        for kept, _ in self.kept:
            if kept.source != segment.source or not kept.payload:
                continue
            shift = nearest_position(kept.sequence, segment.sequence) - segment.sequence
            first = max(start, shift)
            last = min(len(segment.payload), shift + len(kept.payload))
            if first < last and (
                segment.payload[first:last] != kept.payload[first - shift : last - shift]
            ):
                return True
        return False


class Known:
    """A connection, open or closed, and on which paths it was seen."""

    def __init__(self, key: Key, connection: TcpConnection) -> None:
        self.key = key
        self.connection = connection
        self.is_closed = False
        self.bound: set[tuple[FullPath, AddressPort]] = set()
        self.initial: dict[AddressPort, int] = {}
        self.carried: dict[FullPath, _Carried] = {}

    def is_only_on(self, path: FullPath) -> bool:
        """Return whether it was seen on no other path."""
        return all(bound == path for bound, _ in self.bound)

    def carry(self, path: FullPath) -> _Carried:
        """Begin to keep what a path carries."""
        carried = self.carried[path] = _Carried(is_copy=self.connection.described is not None)
        return carried

    def unbind(self, path: FullPath) -> None:
        """End its time on a path: another connection begins there."""
        self.bound = {each for each in self.bound if each[0] != path}

    def distance(self, segment: Segment) -> int | None:
        """Return how far a segment's numbers are from those expected; None: it does not fit."""
        sender, receiver = segment.source, segment.destination
        if segment.flags & SYN:
            expected = self.initial.get(sender)
            if expected is not None and expected != segment.sequence:
                return None
            theirs = self.initial.get(receiver)
            if segment.flags & ACK and theirs is not None:
                return 0 if segment.acknowledges == advance(theirs, 1) else None
            if expected is not None:
                return 0
        nexts = self.connection.ends()
        total = None
        for near, number in (
            (nexts.get(sender), segment.sequence + bool(segment.flags & SYN)),
            (nexts.get(receiver), segment.acknowledges),
        ):
            if near is None or number is None:
                continue
            distance = abs(nearest_position(number, near) - near)
            if distance > USUAL_WINDOW_BYTES:
                return None
            total = (total or 0) + distance
        return total

    def differs(self, path: FullPath, segment: Segment) -> bool:
        """Return whether the bytes of a segment prove that ``path`` carries another connection."""
        own = self.carried[path]
        if own.is_copy or not segment.payload:
            return False
        start = own.new_from(segment)
        return any(
            other.differs(segment, start) for at, other in self.carried.items() if at != path
        )

    def accepts(self, segments: Iterable[Kept]) -> bool:
        """Return whether what one path carried may be of this connection."""
        path = _Carried(is_copy=False)
        for segment, tag in segments:
            if segment.flags & SYN and self.distance(segment) is None:
                return False
            start = path.new_from(segment)
            if any(other.differs(segment, start) for other in self.carried.values()):
                return False
            path.add(segment, tag)
        return True


class Belonging(NamedTuple):
    """Where a segment belongs.

    ``known`` is its connection; None: it begins another one. ``ended``: a connection that ends, as
    this one begins in its place. ``before``: what has to be fed before the segment.
    """

    known: Known | None
    ended: Known | None = None
    before: tuple[Kept, ...] = ()


class Paths:
    """The connections of a capture by their paths.

    ``unwatched``: the path of all segments so far, once segments on it need not be given to
    ``find``; None: each segment must be.
    """

    def __init__(self) -> None:
        self.unwatched: FullPath | None = None
        self.are_several = False
        self._only: FullPath | None = None
        self._known: dict[Ends, list[Known]] = {}
        self._bytes = 0
        self._segments = 0
        self._oldest: dict[_Carried, None] = {}

    def find(
        self,
        ends: Ends,
        path: FullPath,
        segment: Segment,
        tag: Tag,
        connection: TcpConnection | None,
    ) -> Belonging:
        """Return to which connection the next segment of the capture belongs.

        ``connection`` is the one that was open between ``ends`` on the unwatched path, if any.
        """
        if self._only is None:
            self._only = path
        elif path != self._only:
            self.are_several = True
            self.unwatched = None
        known = self._known.get(ends)
        if not known:
            if connection is None:
                return Belonging(None)
            known = [self._adopt(ends, connection, self._only)]
        if segment.flags & (SYN | ACK | RST) == SYN:
            return self._find_opened(known, path, segment, tag)
        found = _bound(known, path, segment.source) or self._find_unbound(known, path, segment)
        if found is None:
            return Belonging(None)
        return self._compared(known, found, path, segment, tag)

    def add(self, key: Key, ends: Ends, connection: TcpConnection) -> Known:
        """Add a connection that begins."""
        added = Known(key, connection)
        self._known.setdefault(ends, []).append(added)
        return added

    def bind(self, known: Known, path: FullPath, segment: Segment, tag: Tag) -> None:
        """Note that a path carried a segment of a connection."""
        known.bound.add((path, segment.source))
        is_syn = segment.flags & SYN
        known.initial.setdefault(segment.source, segment.sequence - (0 if is_syn else 1) & WORD)
        carried = known.carried.get(path)
        if carried is None:
            carried = known.carry(path)
        if not carried.is_copy:
            self._bytes += carried.add(segment, tag)
            self._oldest[carried] = None
        self._segments += 1
        self._bound_memory()

    def forget(self, key: Key) -> None:
        """Forget a closed connection."""
        ends = key[0], key[1]
        known = self._known.get(ends, [])
        for each in known:
            if each.key == key:
                for carried in each.carried.values():
                    self._drop(carried)
                known.remove(each)
                break
        if not known:
            self._known.pop(ends, None)

    def close(self, key: Key) -> None:
        """Note that a connection is closed."""
        for each in self._known.get((key[0], key[1]), ()):
            each.is_closed |= each.key == key

    def _find_opened(
        self, known: list[Known], path: FullPath, segment: Segment, tag: Tag
    ) -> Belonging:
        """Find the connection of a SYN; see rules 1, 2 and 4."""
        bound = _bound(known, path, segment.source)
        if bound is not None and not bound.is_closed and not bound.connection.is_another(segment):
            return Belonging(bound)
        name = tag.note.connection if isinstance(tag.note, Described) else None
        for each in reversed(known):
            described = each.connection.described
            if (
                path not in each.carried
                and each.distance(segment) == 0
                and name == (described.connection if described is not None else None)
            ):
                if bound is not None:
                    bound.unbind(path)
                return Belonging(each)
        if bound is None:
            bound = next((each for each in reversed(known) if each.is_only_on(path)), None)
        ended = bound if bound is not None and not bound.is_closed else None
        for each in known:
            if (path, segment.source) in each.bound or each is bound:
                each.unbind(path)
        return Belonging(None, ended)

    def _find_unbound(self, known: list[Known], path: FullPath, segment: Segment) -> Known | None:
        """Find the connection of a segment on a path that has none from its sender; see rule 2."""
        other_direction = path, segment.destination
        best: tuple[tuple[int, bool], Known] | None = None
        for each in reversed(known):
            distance = each.distance(segment)
            if distance is not None:
                rank = distance, other_direction not in each.bound
                if best is None or rank < best[0]:
                    best = rank, each
        if best is not None:
            return best[1]
        found = _bound(known, path, segment.destination)
        return None if found is None or found.is_closed else found

    def _compared(
        self, known: list[Known], found: Known, path: FullPath, segment: Segment, tag: Tag
    ) -> Belonging:
        """Return ``found`` unless bytes of the segment differ; see rule 3."""
        if len(found.carried) + (path not in found.carried) == 1:
            return Belonging(found)
        if path not in found.carried:
            found.carry(path)
        if not found.differs(path, segment):
            return Belonging(found)
        carried = found.carried.pop(path)
        before = tuple(carried.kept)
        found.unbind(path)
        self._drop(carried)
        both = *before, Kept(segment, tag)
        others = [each for each in known if each is not found and each.accepts(both)]
        return Belonging(self._find_unbound(others, path, segment), before=before)

    def _adopt(self, ends: Ends, connection: TcpConnection, path: FullPath) -> Known:
        """Add a connection that began while its path was unwatched."""
        known = self.add(ends, ends, connection)
        known.bound = {(path, end) for end in ends}
        known.initial = dict([connection.first_number])
        known.carried[path] = _Carried(is_copy=True)
        return known

    def _bound_memory(self) -> None:
        if not self.are_several and self._segments > _FIRST_SEGMENTS:
            self.unwatched = self._only
            self._known.clear()
            self._oldest.clear()
            self._bytes = 0
        while self._bytes > _KEPT_BYTES:
            self._drop(next(iter(self._oldest)))

    def _drop(self, carried: _Carried) -> None:
        """Forget what a path carried."""
        self._oldest.pop(carried, None)
        self._bytes -= carried.bytes
        carried.bytes = 0
        carried.kept.clear()
        carried.is_copy = True


def _bound(known: list[Known], path: FullPath, sender: AddressPort) -> Known | None:
    """Return the connection that a path carries from a sender."""
    for each in reversed(known):
        if (path, sender) in each.bound:
            return each
    return None
