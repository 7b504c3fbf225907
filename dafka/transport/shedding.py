"""Which connection to cut where memory grows inside ZeroMQ, before any of it is a message here.

Two floods never come to a socket's owner in time. Subscriptions cost some 30 bytes for each of
theirs, and are all read in one call. The parts of a message that does not end are kept until it
does, 64 bytes and more each. Both are known by what the kernel has received: too many names, or
more and more while nothing whole could be taken. Nobody is cut while the process has not grown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SheddingBounds:
    """When somebody is cut.

    Attributes:
        watched_bytes: Growth of the process from which on connections are looked at.
        grown_bytes: Growth below which nobody is cut: normal work does not make it in a moment.
        settling_bytes_s: So fast what stays becomes the process's size, from which growth counts.
        names_bytes_s: So fast they are forgotten: consumers change what they listen for.
        drowning_bytes: Growth within half a minute from which on, in that time, fewer still are.
        drowning_names_bytes: Of one connection, since all nodes had read what there was; or in all,
            where others have ended with more than `NamesBound.costly`.
        drowning_ms: That half minute.
        connection_bytes: What a connection costs beside `costly` times the few names that each node
            has: thousands may come at once. Without names it is 22 KiB, with ten 43.
        name_cost: What ZeroMQ makes of one byte of a subscription.
        costly: Less than `name_cost`; see `NamesBound.costly`.
        flooding_bytes: Growth within half a minute from which on less is enough at once.
        part_bytes: What has to have come since the last whole message.
        part_growth_bytes: How much the process has to have grown meanwhile, as a rule.
        tiny_bytes: The same of a message in parts so small that they cost many times as much.
        tiny_growth_bytes: How much the process has to have grown meanwhile, then; nothing in an
            alarm where little can wait, see `rounds`.
        alarm_ms: So long after a cut that does not matter: what is freed is used again unseen.
        alarm_names_bytes: Subscriptions of one connection in that time: they come in company, and
            each that ends makes ZeroMQ walk over the names of all.
        rounds: How often its node has to have taken all that was whole meanwhile; not where little
            can wait, in an alarm or when it has grown by `tiny_growth_bytes`, or of more than
            `tiny_bytes` by `part_growth_bytes`: a flood, this or another, keeps a node from
            taking anything.
        hurry_bytes: Growth since the last look from which on the next one is not put off.
    """

    watched_bytes: int = 24 * _MIB
    grown_bytes: int = 48 * _MIB
    settling_bytes_s: int = 64 * 1024
    names_bytes_s: int = 2 * 1024
    drowning_bytes: int = 80 * _MIB
    drowning_names_bytes: int = 128 * 1024
    drowning_ms: int = 30_000
    connection_bytes: int = 32 * 1024
    name_cost: int = 32
    costly: int = 28
    flooding_bytes: int = 160 * _MIB
    part_bytes: int = 8 * _MIB
    part_growth_bytes: int = 12 * _MIB
    tiny_bytes: int = _MIB // 2
    tiny_growth_bytes: int = 32 * _MIB
    alarm_ms: int = 10_000
    alarm_names_bytes: int = 768 * 1024
    rounds: int = 2
    hurry_bytes: int = _MIB


class NamesBound(NamedTuple):
    """How many subscriptions may come in at a socket; none at one that takes other messages.

    Attributes:
        connection: Bytes of them that may come on a connection.
        costly: Bytes of them, of one connection or several, of which the largest is cut if the
            process has grown by `SheddingBounds.costly` times as much while they came: such have
            nothing in common. With them counts what connections had that have ended, as long as
            their node has not turned: to take such names off keeps it busy, for each as long as
            there are names.
    """

    connection: int
    costly: int


NO_NAMES = NamesBound(0, 0)


class WatchedConnection(NamedTuple):
    """A connection of TCP that came in, or that was made to a peer.

    Attributes:
        number: Tells it from all others, also from later ones at its descriptor.
        descriptor: Of the file.
        received: Bytes, since it was made; of messages, without those that wait in the kernel.
        names: How many subscriptions may come on it; none if other messages do.
        message_max: Bytes of the largest of those: more is none, whatever the process has done.
        peer: Who is at the other end, for people.
        came: Whether it came in at a socket of ours: there few messages wait to be taken.
    """

    number: int
    descriptor: int
    received: int
    names: NamesBound
    message_max: int
    peer: str
    came: bool


class Cut(NamedTuple):
    """A connection that is to be cut.

    Attributes:
        reason: Of the metric, `subscriptions` or `endless message`.
        received: Bytes that it was cut for.
    """

    connection: WatchedConnection
    reason: str
    received: int


@dataclass(slots=True)
class _Seen:
    """What is known of a connection."""

    received: int
    seen_ms: int
    names: int = 0
    """Subscribed to, as far as it is not forgotten."""
    names_growth: int = 0
    """How much the process has grown while they came: their share of it."""
    settled: int = 0
    """Received when all nodes had taken what there was."""
    whole: int = 0
    """Received when something whole was taken last."""
    began_size: int = 0
    """The process's size before anything came that is not whole yet."""
    began_round: int = 0


class Shedding:
    """Looks at the process's size, and at its connections when that has grown."""

    def __init__(self, bounds: SheddingBounds | None = None) -> None:
        self._bounds = bounds or SheddingBounds()
        self._size = 0
        self._looked_size = 0
        """At the last look."""
        self._low_size = 0
        """The least since then."""
        self._floor: int | None = None
        self._now_ms = 0
        self._round = 0
        self._least = self._least_before = 0
        """The process's least size in this half of `drowning_ms`, and in the one before."""
        self._least_until_ms = 0
        self._marked = False
        """Whether what has been received is known from when watching began: before, nobody notes
        what is taken, also not between two looks."""
        self._seen: dict[int, _Seen] = {}
        self._cut: set[int] = set()
        self._alarm_until_ms = 0
        self._costly_names = 0
        """Subscriptions of all connections whose names cost much."""
        self._ended: list[tuple[int, int]] = []
        """The same of those that have ended, with the round in which they did."""

    @property
    def grown(self) -> int:
        """Bytes by which the process is larger than it is used to."""
        return 0 if self._floor is None else self._size - self._floor

    @property
    def watching(self) -> bool:
        """Whether to look at connections often, and to tell what is taken from them."""
        return self.grown >= self._bounds.watched_bytes

    @property
    def hurried(self) -> bool:
        """Whether the next look is not to be put off: somebody may be filling memory just now.

        In an alarm he may without growth, as what was freed is used again.
        """
        return self._alarmed or self._size - self._low_size > self._bounds.hurry_bytes

    @property
    def too_large(self) -> bool:
        """Whether it has grown so much that somebody may be cut."""
        return self.grown >= self._bounds.grown_bytes

    @property
    def wasteful(self) -> bool:
        """Whether to give back what is freed: it is too large, or it is whose just was cut."""
        return self.too_large or (self.watching and self._alarmed)

    def resize(self, size: int, now_ms: int) -> None:
        """Take in how much memory of its own the process has."""
        settled = self._bounds.settling_bytes_s * (now_ms - self._now_ms) // 1_000
        self._floor = size if self._floor is None else min(size, self._floor + settled)
        self._size, self._now_ms = size, now_ms
        self._marked = self._marked and self.watching
        self._low_size = min(self._low_size, size)
        self._least = min(self._least, size)
        if now_ms >= self._least_until_ms:
            self._least_before = self._least if self._least_until_ms else size
            self._least = size
            self._least_until_ms = now_ms + self._bounds.drowning_ms // 2

    def look(
        self,
        connections: Iterable[WatchedConnection],
        taken: Set[int],
        refused: Set[int] = frozenset(),
        *,
        settled: bool,
    ) -> Cut | None:
        """Take in what connections have received; returns which is to be cut, if one is.

        To be called now and then also while not `watching`, and after `resize`.

        Args:
            connections: All there are.
            taken: Descriptors that whole messages were taken from since the last look.
            refused: Descriptors that too many subscriptions came from that are not permitted.
            settled: Whether each node has taken what there was since this was last so.
        """
        settled = settled or not self.watching
        round_before = self._round
        self._round += settled
        marking = not (self.watching and self._marked)
        self._marked = self.watching
        known, self._seen = self._seen, {}
        there = list(connections)
        names: list[tuple[_Seen, int]] = []
        explained = 0
        for one in there:
            seen = known.get(one.number)
            if seen is None:
                explained += self._bounds.connection_bytes
                seen = _Seen(0, self._now_ms, began_size=self._size, began_round=self._round)
            elif seen.received <= seen.whole:
                seen.began_size, seen.began_round = self._looked_size, round_before
            self._seen[one.number] = seen
            if one.names.connection:
                names.append((seen, self._count_names(seen, one)))
            elif not one.came:
                explained += one.received - seen.received
            seen.received, seen.seen_ms = one.received, self._now_ms
            if settled:
                seen.settled = one.received
            if marking or one.descriptor in taken:
                seen.whole = one.received
                seen.began_size, seen.began_round = self._size, self._round
        self._share_growth(names, explained)
        self._looked_size = self._low_size = self._size
        self._bury(known)
        self._cut &= self._seen.keys()
        return self._worst(there, refused)

    def _count_names(self, seen: _Seen, one: WatchedConnection) -> int:
        """Take in how many bytes of subscriptions a connection has; returns how many came."""
        forgotten = self._bounds.names_bytes_s * (self._now_ms - seen.seen_ms) // 1_000
        came = one.received - seen.received
        seen.names = max(0, seen.names - forgotten) + came
        return came

    def _share_growth(self, names: list[tuple[_Seen, int]], explained: int) -> None:
        """Charge whose names came with what the process has grown by, each for its part of them.

        Not with what is explained by peers' records and connections, which came meanwhile.
        """
        total = sum(came for _, came in names)
        growth = self._size - self._looked_size
        growth -= min(max(0, growth), explained)
        for seen, came in names:
            if came:
                seen.names_growth += growth * came // total

    def _bury(self, known: dict[int, _Seen]) -> None:
        """Remember names of who has left: their node has them until it has turned."""
        ended = [seen for number, seen in known.items() if number not in self._seen]
        self._ended += [(self._round, one.names) for one in ended if self._costs_much(one)]
        since = self._round - self._bounds.rounds
        self._ended = [one for one in self._ended if one[0] > since]

    def _worst(self, there: list[WatchedConnection], refused: Set[int]) -> Cut | None:
        """Choose who is to be cut, if anybody is."""
        left = [(self._seen[one.number], one) for one in there if one.number not in self._cut]
        self._costly_names = sum(seen.names for seen, _ in left if self._costs_much(seen))
        worst: Cut | None = None
        worst_cost = -1
        for seen, one in left:
            cut = self._judged(seen, one, one.descriptor in refused)
            if cut is None:
                continue
            cost = cut.received * (self._bounds.name_cost if one.names.connection else 1)
            if cost > worst_cost:
                worst, worst_cost = cut, cost
        if worst is not None:
            self._cut.add(worst.connection.number)
            if not self._alarmed:  # what is cut for less proves nothing
                self._alarm_until_ms = self._now_ms + self._bounds.alarm_ms
        return worst

    def _costs_much(self, seen: _Seen) -> bool:
        return seen.names_growth > self._bounds.costly * seen.names

    def _judged(self, seen: _Seen, one: WatchedConnection, refused: bool) -> Cut | None:
        if refused or (one.names.connection and self._too_many_names(seen, one)):
            return Cut(one, "subscriptions", seen.names)
        if not one.names.connection and self._endless(seen, one):
            return Cut(one, "endless message", seen.received - seen.whole)
        return None

    @property
    def _alarmed(self) -> bool:
        return self._now_ms < self._alarm_until_ms

    def _too_many_names(self, seen: _Seen, one: WatchedConnection) -> bool:
        bounds = self._bounds
        if self.grown < min(bounds.grown_bytes, one.names.connection * bounds.name_cost):
            return False
        lately = self._size - min(self._least, self._least_before)
        few = min(one.names.connection, bounds.alarm_names_bytes)
        if seen.names > (
            few if self._alarmed or lately > bounds.flooding_bytes else one.names.connection
        ):
            return True
        if self._costs_much(seen) and self._together_too_many(seen, one):
            return True
        if not self._alarmed:
            return False
        unread = seen.received - seen.settled
        return lately > bounds.drowning_bytes and unread > bounds.drowning_names_bytes

    def _together_too_many(self, seen: _Seen, one: WatchedConnection) -> bool:
        bounds = self._bounds
        if self._costly_names > one.names.costly:
            return True
        ended = sum(names for _, names in self._ended)
        least = min(one.names.connection, bounds.drowning_names_bytes)
        return self._costly_names + ended > one.names.costly and seen.names > least

    def _endless(self, seen: _Seen, one: WatchedConnection) -> bool:
        bounds = self._bounds
        if not self.too_large:
            return False
        part = seen.received - seen.whole
        growth = self._size - seen.began_size
        grew = growth > bounds.tiny_growth_bytes
        if one.came and part > one.message_max and self._alarmed:
            return True
        if one.came and part > min(one.message_max, bounds.tiny_bytes) and grew:
            return True
        if one.came and part > bounds.tiny_bytes and growth > bounds.part_growth_bytes:
            return True
        if self._round - seen.began_round < bounds.rounds:
            return False
        if part > one.message_max:
            return True
        if part > bounds.part_bytes:
            return self._alarmed or growth > bounds.part_growth_bytes
        return part > bounds.tiny_bytes and (grew or (one.came and self._alarmed))
