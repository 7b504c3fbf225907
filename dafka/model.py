"""The nouns: what a record is and where it stands.

A partition is one producer's log in one topic, named by the producer's address. Its records
carry dense sequences from 0. `(topic, address, sequence)` names a record in the whole world:
a distributor copies records to other clusters under the same name.

What messages, events, effects and batches are: values that come and go by the million.

A frozen dataclass of five fields takes 0.68 µs to make, this 0.07.
"""

from __future__ import annotations

import re
import zlib
from enum import Enum, IntEnum
from functools import cache, lru_cache
from ipaddress import ip_address
from reprlib import Repr
from typing import TYPE_CHECKING, Generic, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import TypeVar

from dafka.errors import MisuseError
from dafka.limits import TOPIC_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID


__all__ = ["Value", "replace"]

K = TypeVar("K", default=bytes)
"""What an application makes of keys."""

V = TypeVar("V", default=bytes)
"""What it makes of values."""


class Value(Struct, frozen=True, gc=False):
    """Immutable, equal by its fields, and never part of a cycle: no collector looks at it."""


NO_ORIGIN = 0
"""Origin number of a record that no distributor has copied yet: it was published here."""

_ENDPOINT = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):([0-9]{1,5})")
"""A name that begins with anything else ZeroMQ refuses to connect to, by an error."""
_LOCAL = re.compile(r"(ipc:///|inproc://)[A-Za-z0-9._@+/-]+")
_LOCAL_BYTES_MAX = len("ipc://") + 107
"""What the address of a Unix socket holds; the same for inproc, for simplicity."""


MARK_CHARACTERS = 16
"""What an address begins with where there are keys: the fingerprint of its node's key."""


def mark_of(address: str) -> str:
    """Who has an address: its node's key, where there are keys; else only that node."""
    return address[:MARK_CHARACTERS]


SLOTS = 4_096
"""Of the ring on which partitions stand; who shares them among N takes N ranges of slots."""


def slot_of(address: str) -> int:
    """Return the slot of an address: the low 12 bits of the CRC-32 of its octets, on every node."""
    return zlib.crc32(address.encode("utf-8", "surrogateescape")) % SLOTS


def range_of(slot: int, ranges: int) -> int:
    """Return which of so many ranges a slot lies in; those of a multiple nest in these."""
    return slot * ranges // SLOTS


class PartitionShare(NamedTuple):
    """One of the parts into which several divide the partitions among them, none of them twice.

    Attributes:
        number: Which, counted from 0.
        of: How many there are.
    """

    number: int = 0
    of: int = 1

    def has(self, address: str) -> bool:
        """Whether the partitions of an address are in it."""
        return self.of == 1 or range_of(slot_of(address), self.of) == self.number

    def meets(self, other: PartitionShare) -> bool:
        """Whether a partition may be in both."""
        ahead = self.number * other.of < (other.number + 1) * self.of
        return ahead and other.number * self.of < (self.number + 1) * other.of


WHOLE = PartitionShare()
"""All partitions."""


SYSTEM = "_"
"""How the topics of a cluster itself begin: commits, schemas, ledgers, heartbeats."""

SLOT_BITS = SLOTS.bit_length() - 1


class Slots(NamedTuple):
    """Which slots of the ring a store keeps.

    Attributes:
        bits: A 1 for each, that of slot 0 the lowest.
    """

    bits: int = (1 << SLOTS) - 1

    @classmethod
    def of(cls, ranges: Iterable[range]) -> Slots:
        """The slots in some ranges of consecutive ones."""
        bits = 0
        for one in ranges:
            bits |= (1 << one.stop) - (1 << one.start)
        return cls(bits)

    def __bool__(self) -> bool:
        return bool(self.bits)

    def has(self, slot: int) -> bool:
        """Whether a slot is one of them."""
        return bool(self.bits >> slot & 1)

    def keeps(self, topic: str, address: str) -> bool:
        """Whether a partition lies in them; what a cluster says of itself lies in all."""
        return self == ALL_SLOTS or topic.startswith(SYSTEM) or self.has(slot_of(address))

    def without(self, other: Slots) -> Slots:
        """Those that are not among others."""
        return Slots(self.bits & ~other.bits)

    def shared(self, other: Slots) -> Slots:
        """Those that both have."""
        return Slots(self.bits & other.bits)

    def joined(self, other: Slots) -> Slots:
        """Those that either has."""
        return Slots(self.bits | other.bits)

    def ranges(self) -> list[range]:
        """The same as ranges, ascending and with slots between them that are none of these."""
        found: list[range] = []
        left, start = self.bits, 0
        while left:
            gap = (left & -left).bit_length() - 1
            left >>= gap
            length = (~left & (left + 1)).bit_length() - 1
            found.append(range(start + gap, start + gap + length))
            left >>= length
            start += gap + length
        return found

    def prefixes(self) -> list[str]:
        """The fewest beginnings of slots, written in binary, that exactly these begin with."""
        found: list[str] = []
        for one in self.ranges():
            start = one.start
            while start < one.stop:
                size = start & -start or SLOTS
                while start + size > one.stop:
                    size >>= 1
                free = size.bit_length() - 1
                found.append(slot_key(start)[: SLOT_BITS - free])
                start += size
        return found

    def __str__(self) -> str:
        return ",".join(f"{one.start}-{one.stop - 1}" for one in self.ranges())


ALL_SLOTS = Slots()
"""What a store keeps that was told nothing else."""


def slot_key(slot: int) -> str:
    """A slot as it stands in subscriptions: in binary, all its digits."""
    return f"{slot:0{SLOT_BITS}b}"


def address_in(drawn: str, number: int, ranges: int) -> str:
    """Return a drawn address with other last digits, so that it lies in one of so many ranges.

    What digits do to a CRC does not depend on what stands before them, so they are looked up:
    to draw until one lies there takes as many draws as there are ranges.
    """
    first, end = (-(-one * SLOTS // ranges) for one in (number, number + 1))
    wanted = first + slot_of(drawn) % (end - first)
    ended = drawn[:-_END_DIGITS] + "0" * _END_DIGITS
    return drawn[:-_END_DIGITS] + _address_ends()[slot_of(ended) ^ wanted]


_END_DIGITS = 4
"""With these there is an address of every slot; with three there is not."""


@cache
def _address_ends() -> dict[int, str]:
    """By the bits of a slot that they change, digits in place of zeros at the end of an address."""
    zeros = slot_of("0" * _END_DIGITS)
    ends = (f"{number:0{_END_DIGITS}X}" for number in range(16**_END_DIGITS))
    return {slot_of(end) ^ zeros: end for end in ends}


class Partition(NamedTuple):
    """One producer's log in one topic."""

    topic: str
    address: str


class Range(NamedTuple):
    """Records of one partition, from sequence `start` to below `end`."""

    partition: Partition
    start: int
    end: int

    @property
    def records(self) -> int:
        """How many that is."""
        return self.end - self.start


class Header(NamedTuple):
    """One header of a record. A value of None is allowed, as in Kafka."""

    name: str
    value: bytes | None


class Record(NamedTuple, Generic[K, V]):
    """One unit of user data and its place.

    Attributes:
        topic: The stream it belongs to.
        address: Its producer, 32 upper-case hex digits; with `topic` this is the partition.
        sequence: Its position in the partition, from 0, without gaps.
        timestamp_ms: When it was created, milliseconds since 1970, from the producer.
        key: Routing key, or None: octets, or what a consumer's deserializer makes of them.
        value: Content, or None (a tombstone); likewise.
        headers: In the order they were given.
        copy_flags: One bit per tree level the record has crossed (bit level - 1).
        origin: Number of the cluster it was first published on; 0 is "this one".
    """

    topic: str
    address: str
    sequence: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: tuple[Header, ...]
    copy_flags: int
    origin: int

    def __repr__(self) -> str:
        """In a line, whatever it holds."""
        shown = [f"{self.topic!r}, {self.address[:8]}…, {self.sequence}"]
        if self.key is not None:
            shown.append(f"key={short_repr(self.key)}")
        shown.append(f"value={short_repr(self.value)}")
        if self.headers:
            shown.append(f"headers={short_repr([name for name, _ in self.headers])}")
        return f"Record({', '.join(shown)})"


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def short_repr(value: object) -> str:
    """What `repr` returns, with the middle left out of what is long."""
    if isinstance(value, bytes) and len(value) > _SHORT.maxother:
        return f"{value[: _SHORT.maxother]!r}…"  # not even its own `repr` is made
    return _SHORT.repr(value)


def address_of(uuid: UUID) -> str:
    """Return a node's address: its UUID as 32 upper-case hex digits."""
    return uuid.hex.upper()


def checked_topic(topic: str) -> str:
    """Return `topic` if it may be used on the wire.

    Raises:
        MisuseError: It is empty, too long, contains a NUL or is not what a peer would read back.
    """
    if not isinstance(topic, str):
        raise MisuseError(f"topic must be a string, got {topic!r}")
    try:
        octets = topic.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise MisuseError(f"topic {topic!r} cannot be used: it has no bytes") from error
    if octets.decode("utf-8", "surrogateescape") != topic:
        raise MisuseError(f"topic {topic!r} cannot be used: its bytes spell another name")
    size = len(octets)
    if not 1 <= size <= TOPIC_BYTES_MAX or "\0" in topic:
        raise MisuseError(
            f"topic {topic!r} cannot be used: 1 to {TOPIC_BYTES_MAX} bytes without NUL, got {size}"
        )
    return topic


def is_address(host: str) -> bool:
    """Whether a host is an address, in brackets if it is one of IPv6, and not a name."""
    try:
        ip_address(host[1:-1] if host.startswith("[") else host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host, an IPv6 address with or without brackets, is this machine's alone."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Endpoint(NamedTuple):
    """A TCP endpoint, `tcp://host:port`."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Read `tcp://host:port`; an IPv6 host stands in brackets.

        Raises:
            MisuseError: It is anything else.
        """
        match = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
        if match is None or not 0 < int(match[2]) < 65_536:
            raise MisuseError(f"endpoint {text!r} cannot be used: expected tcp://HOST:PORT")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}"


class LocalEndpoint(str):
    """An endpoint without a network: `ipc:///path` on a machine, `inproc://name` in a process.

    A path is absolute. Both consist of letters, digits and `._@+/-`.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> LocalEndpoint:
        """Read one.

        Raises:
            MisuseError: It is anything else, or longer than the address of a Unix socket can be.
        """
        if not isinstance(text, str) or not _LOCAL.fullmatch(text) or len(text) > _LOCAL_BYTES_MAX:
            raise MisuseError(
                f"endpoint {text!r} cannot be used: expected ipc:///PATH or inproc://NAME, "
                f"{_LOCAL_BYTES_MAX} bytes at most"
            )
        return cls(text)


def endpoint_of(text: str) -> Endpoint | LocalEndpoint:
    """Read an endpoint of any kind.

    Raises:
        MisuseError: It is none.
    """
    if isinstance(text, str) and text.startswith(("ipc:", "inproc:")):
        return LocalEndpoint.parse(text)
    return Endpoint.parse(text)


class Reach(IntEnum):
    """From how far something can be connected to."""

    PROCESS = 1
    MACHINE = 2
    NETWORK = 3

    @classmethod
    def of_node(cls, endpoint: str) -> Reach:
        """From where a node may be connected to; what TCP hosts stand for is their network's."""
        if endpoint.startswith("inproc:"):
            return cls.PROCESS
        return cls.MACHINE if endpoint.startswith("ipc:") else cls.NETWORK

    @classmethod
    @lru_cache(maxsize=256)
    def of_tower(cls, endpoint: str) -> Reach:
        """How far those may be apart who hear of each other through a tower."""
        if is_loopback(endpoint.removeprefix("tcp://").rpartition(":")[0]):
            return cls.MACHINE
        return cls.of_node(endpoint)


class TowerEndpoints(NamedTuple):
    """Where one tower listens: nodes publish beacons to `inbound`, hear them on `outbound`."""

    inbound: str
    outbound: str

    @classmethod
    def parse(cls, text: str) -> TowerEndpoints:
        """A tower is named by its inbound endpoint; it publishes on the next port.

        The default ports of the C implementation, 5556 and 5557, stand in that relation. One at
        ipc or inproc publishes at the same name with `.out` behind it.

        Raises:
            MisuseError: It is not an endpoint, or there is no next port.
        """
        inbound = endpoint_of(text)
        if isinstance(inbound, LocalEndpoint):
            return cls(inbound, LocalEndpoint.parse(f"{inbound}.out"))
        if inbound.port >= 65_535:
            raise MisuseError(f"tower endpoint {text!r} cannot be used: it needs the next port too")
        return cls(str(inbound), str(Endpoint(inbound.host, inbound.port + 1)))


class Shape(Enum):
    """How a node publishes its records."""

    BATCHES = "batches"
    """As RECORDS. Who does not know them fetches when there is a HEAD."""
    MARKED = "marked"
    """As RECORDS, and the last record of each as a RECORD: a sign for peers that must fetch."""
    CLASSIC = "classic"
    """As RECORDS, and each record as a RECORD too."""
    RAW = "raw"
    """Each record as a RECORD."""


class Batch(Value, frozen=True):
    """Consecutive records of one partition, enclosed as they travel and as they are stored.

    Attributes:
        partition: Whose records these are.
        sequence: Sequence of the first record.
        count: How many records, at least 1.
        content: Envelope and record batch (`dafka.records`).
    """

    partition: Partition
    sequence: int
    count: int
    content: bytes

    @property
    def end(self) -> int:
        """The sequence after the last record."""
        return self.sequence + self.count
