"""Every decoder of bytes from outside: real examples, what it may raise, how to encode again."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import google_crc32c

from dafka.cli.records import from_json
from dafka.errors import CommitError, MisuseError, RecordError, RequestError, WireError
from dafka.gateway import catalog, lines
from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.events import LedgerLine, LineKind, Produced
from dafka.gateway.wire import parse
from dafka.groups import commit
from dafka.groups.membership import Ballot
from dafka.model import Partition, TowerEndpoints
from dafka.query import messages as query
from dafka.query.slot_steps import (
    RegistersRequest,
    RegistersResponse,
    SlotRowsRequest,
    SlotRowsResponse,
    SlotsRequest,
    SlotsResponse,
)
from dafka.records.batch import BatchBuilder, checked_count, enclosed, raw_records
from dafka.records.client_batch import checked_batch
from dafka.records.compression import Codec
from dafka.records.envelope import ENVELOPE_BYTES, Envelope, pack, unpack
from dafka.schemas import entries
from dafka.schemas.protobuf_compiler import compiled
from dafka.schemas.requests import schema_of
from dafka.transport.keys import load_access, new_keys
from dafka.wire import beacon, libdafka, messages, rfc46
from dafka.wire.bundles import Bundles
from distributor.control import protocol as control
from tests.support import kafka_messages
from topology.errors import InvalidError, UnreadableError
from topology.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = Path(__file__).parents[1] / "dafka/wire/dafka-vectors.json"
CAPTURED = [
    (one["type"], [bytes.fromhex(frame) for frame in one["frames"]])
    for one in json.loads(VECTORS.read_text())
]
"""What the C implementation sends."""

CAPTURED_MESSAGES = [
    frames for kind, frames in CAPTURED if "-BEACON" not in kind and kind[0] not in "TX"
]

Frames = list[bytes]


class RefusedError(Exception):
    """Raised here for decoders that refuse by returning None."""


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """One way into a process.

    Attributes:
        name: For people.
        examples: Frames it understands.
        decode: Frames to a value.
        refusals: What it may raise.
        encode: The inverse; None where nothing of ours writes it.
        mended: Puts checksums right again, so that mutations come past them.
        from_file: Whether `decode` takes the path of a file that holds the frames.
        cost: How many times as long as the others it takes; it gets as many fewer cases.
    """

    name: str
    examples: list[Frames]
    decode: Callable[[Any], Any]
    refusals: tuple[type[Exception], ...]
    encode: Callable[[Any], Frames] | None = None
    mended: Callable[[Frames], Frames] = lambda frames: frames
    from_file: bool = False
    cost: int = 1

    def read(self, frames: Frames, scratch: Path) -> Any:
        """Decode, through a file where that is what is decoded."""
        if not self.from_file:
            return self.decode(frames)
        scratch.write_bytes(first(frames))
        return self.decode(scratch)


def first(frames: Frames) -> bytes:
    """The only frame; several are one, as where they come in a stream or a file."""
    return b"".join(frames)


def wanted(value: Any) -> Any:
    if value is None:
        raise RefusedError
    return value


def text_of(frames: Frames) -> str:
    return first(frames).decode("utf-8", "surrogateescape")


def content(records: int = 3, sequence: int = 7, codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder(1 << 20, codec=codec)
    for number in range(records):
        headers = [("a", b"b"), ("c", None)] if number else ()
        builder.append(1_000 + number, b"key" if number else None, b"value", headers)
    return enclosed(builder.build(), sequence, Envelope(2, 5, 1))


def read_records(frames: Frames) -> list:
    octets = first(frames)
    sequence = int.from_bytes(octets[ENVELOPE_BYTES : ENVELOPE_BYTES + 8], "big")
    checked_count(octets, sequence)
    found = list(raw_records(octets))
    if found[0].timestamp_ms == -1:
        # Kafka's mark for "no time", which the library gives the time of the next record.
        raise RecordError("batch records")
    return found


def write_records(records: list) -> Frames:
    builder = BatchBuilder(1 << 20)
    for record in records:
        added = builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        assert added
    return [enclosed(builder.build(), records[0].sequence)]


def with_checksums(frames: Frames) -> Frames:
    """Envelope and batch as they are, under checksums that say so."""
    octets = bytearray(first(frames))
    if len(octets) >= ENVELOPE_BYTES + 21:
        octets[16:20] = google_crc32c.value(bytes(octets[:16])).to_bytes(4, "big")
        body = ENVELOPE_BYTES + 21
        octets[body - 4 : body] = google_crc32c.value(bytes(octets[body:])).to_bytes(4, "big")
    return [bytes(octets)]


def with_batch_checksum(frames: Frames) -> Frames:
    """A batch without envelope as it is, under a checksum that says so."""
    return [with_checksums([bytes(ENVELOPE_BYTES) + first(frames)])[0][ENVELOPE_BYTES:]]


def with_checksum(frames: Frames) -> Frames:
    octets = first(frames)
    return [octets[:16] + google_crc32c.value(octets[:16]).to_bytes(4, "big") + octets[20:]]


QUESTIONS = [
    query.TopicsRequest(b"a"),
    query.PartitionsRequest(b"flights", (b"flights", b"AA")),
    query.RangesRequest(None, None),
    query.NamedRangesRequest(((b"orders", b"AB"), (b"orders", b"CD"))),
    query.ReadRequest(b"flights", b"AA", 7, 100, 1_000),
    query.ReadsRequest(((b"flights", b"AA", 7, 3), (b"flights", b"BB", 0, 1)), 1_000),
    query.FindRequest(b"flights", b"AA", 1_000),
    query.DigestRequest(b"flights", b"AA", 7, 3, True),
    query.DigestsRequest(((b"flights", b"AA", 7, 3), (b"flights", b"BB", 0, 1))),
    query.DeleteRequest(b"flights"),
    query.HolesRequest(),
    query.SkipRequest(b"flights", b"AA", 7),
    query.GroupsRequest(b"g"),
    query.CommitsRequest(b"g", (b"flights", b"AA")),
    query.HealthRequest(),
    query.CatchUpRequest(),
    query.LinkSyncRequest(b"1 at level 2", in_sync=True),
    query.WritersRequest(((b"flow", 0, 2, 7), (b"flow", 1, 2, 8))),
    SlotsRequest("ask", stores=(("AA", ((0, 2_048),)), ("BB", ((2_048, 4_096),)))),
    SlotsRequest("drop", token="opening.1"),
    SlotRowsRequest("passed over", ((0, 2_048),), b"after"),
    RegistersRequest(b"after"),
]
ANSWERS = [
    query.TopicsResponse((b"a", b"b"), True),
    query.PartitionsResponse(((b"flights", b"AA"),), False),
    query.RangesResponse(((b"flights", b"AA", 0, 10),), False),
    query.ReadResponse(((7, 3, content()),)),
    query.ReadsResponse((((7, 3, b"batch"),), ())),
    query.FindResponse(None),
    query.DigestResponse(7, 10, b"digest"),
    query.DigestsResponse(((7, 10, b"digest"),)),
    query.GroupsResponse((b"g",), True),
    query.CommitsResponse(((b"key", b"value"),), False),
    query.DeleteResponse(3, False),
    query.HolesResponse(((b"flights", b"AA", 0, 10),)),
    query.SkipResponse(10),
    query.LinkSyncResponse(known=False, awaited=True),
    query.WritersResponse((7, 9)),
    SlotsResponse(((0, 2_048),), ((0, 4_096),), ((2_048, 4_096),), store="AA"),
    SlotRowsResponse(((b"flights", b"AA", 0, 10),), b"after"),
    RegistersResponse(((b"__sink.a", Ballot(7, "p")),), b"after"),
    query.HealthResponse("AA", 1, 2),
    query.ErrorResponse("storage", "no room"),
]
COMMANDS = [
    control.LinksCommand(),
    control.RetargetCommand("cluster-2"),
    control.LostCommand("cluster-3"),
]
ROW = control.LinkRow("c1", 1, 0, "c2", "serving", "", "", 0, -1)
REPLIES = [
    control.LinkRows((ROW, ROW)),
    control.Remembered(5, ((b"flights", b"AA", 9),)),
    control.CommandRefused("no such target"),
]

KEYS = [new_keys()[0] for _ in range(3)]
ACCESS = f"""cluster = '{KEYS[0]}'
[keys."shop"]
public = '{KEYS[1]}'
read = ["orders*"]
write = ["*"]
[keys."audit"]
public = '{KEYS[2]}'
"""

TOPOLOGY = b"""version: 1
name: two
clusters:
  - {name: a, id: 1, towers: ["tcp://[::1]:10"], stores: [{query: "tcp://[::1]:12", data: d/a}]}
  - name: b
    id: 2
    insecure: true
    towers: ["tcp://[::1]:20"]
    stores: [{query: "tcp://[::1]:22", data: d/b}]
tree: {level: 1, children: [a, b]}
topics: {include: ["*"], exclude: ["__*"]}
"""

SCHEMAS = [
    {"schema": '{"type": "record", "name": "a", "fields": [{"name": "b", "type": "int"}]}'},
    {"schema": '{"type": "object"}', "schemaType": "JSON"},
    {"schema": '"a"', "references": [{"name": "a", "subject": "b", "version": 1}]},
]
PROTO = """syntax = "proto3"; package p; import "google/protobuf/any.proto";
message A { int32 a = 1; map<string, A> b = 2; oneof c { google.protobuf.Any d = 3; } }
"""
PARSED = compiled(PROTO, ())
COMMIT_KEY = commit.CommitKey("group", Partition("flights", "AA"))
STAMP = entries.Stamp(1, 2)
ENTRIES = [
    entries.SchemaEntry(entries.SchemaKey(1), STAMP, schema_of(SCHEMAS[2])),
    entries.SchemaEntry(entries.SchemaKey(2), STAMP, entries.Schema("PROTOBUF", PROTO, (), PARSED)),
    entries.SchemaEntry(entries.VersionKey("a", 1), STAMP, entries.Version(1, True)),
    entries.SchemaEntry(entries.ConfigKey(None), STAMP, "FULL"),
    entries.SchemaEntry(entries.ModeKey("a"), STAMP, "READONLY"),
    entries.SchemaEntry(entries.PrimaryKey(), STAMP, entries.Primary("one", "A")),
    entries.SchemaEntry(entries.ModeKey("a"), STAMP, None),
]


def bundled(together: list[messages.Message]) -> list[bytes]:
    """Messages under one key, as they travel."""
    bundles = Bundles(rfc46, written=True)
    for message in together:
        assert bundles.add(message) is None
    (frames,) = bundles.flush()
    return frames


def pair(frames: Frames) -> entries.SchemaEntry:
    key, value = (*frames, None, None)[:2]
    return entries.decode(key, value)


DECODERS = [
    Decoder(
        name="libdafka",
        examples=CAPTURED_MESSAGES,
        decode=libdafka.decode,
        refusals=(WireError,),
        encode=libdafka.encode,
    ),
    Decoder(
        name="rfc46",
        examples=[
            rfc46.encode(libdafka.decode(frames))
            for frames in CAPTURED_MESSAGES
            if frames[0][:1] != b"K"  # the C store does not say who it is
        ]
        + [
            rfc46.encode(messages.Ack("flights", "AA", "S1", 9)),
            rfc46.encode(messages.Records("flights", "AA", 7, 3, content())),
            rfc46.encode(messages.SlotRecords("flights", "AA", 7, 3, content())),
            rfc46.encode(messages.StoredRecords("S1", "flights", "AA", 7, 3, content())),
            rfc46.encode(messages.LogStart("CC", "flights", "AA", 9, "S1")),
        ],
        decode=rfc46.decode,
        refusals=(WireError,),
        encode=rfc46.encode,
    ),
    Decoder(
        name="bundles",
        examples=[
            bundled([messages.Ack(f"t{number}", "AA", "S1", number, 7) for number in range(3)]),
            bundled([messages.Head(f"t{number}", "AA", number, True) for number in range(9)]),
        ],
        decode=Bundles(rfc46, written=True).opened,
        refusals=(WireError,),
        encode=bundled,
    ),
    *(
        Decoder(
            name=f"{dialect.__name__}.subscription",
            examples=[[dialect.prefix(one, "flights")] for one in messages.MessageId],
            decode=lambda frames, dialect=dialect: wanted(dialect.subscription(first(frames))),
            refusals=(RefusedError,),
            encode=lambda value, dialect=dialect: [dialect.prefix(*value)],
        )
        for dialect in (rfc46, libdafka)
    ),
    Decoder(
        name="node beacon",
        examples=[frames for kind, frames in CAPTURED if kind == "NODE-BEACON"]
        + [beacon.encode_node_beacon(beacon.NodeBeacon("AA", "::1", 80, KEYS[0]))],
        decode=beacon.decode_node_beacon,
        refusals=(WireError,),
        encode=beacon.encode_node_beacon,
    ),
    Decoder(
        name="tower beacon",
        examples=[frames for kind, frames in CAPTURED if kind.startswith("TOWER")]
        + [beacon.encode_tower_beacon(beacon.TowerBeacon("AA", "tcp://[::1]:80", KEYS[0]))],
        decode=beacon.decode_tower_beacon,
        refusals=(WireError,),
        encode=lambda value: beacon.encode_tower_beacon(value) if value else [beacon.WELCOME],
    ),
    Decoder(
        name="envelope",
        examples=[[pack(Envelope(1, 2, 3))], [content()]],
        decode=lambda frames: wanted(unpack(first(frames))),
        refusals=(RefusedError,),
        encode=lambda value: [pack(value)],
        mended=with_checksum,
    ),
    Decoder(
        name="record batch",
        examples=[
            [content()],
            [content(1, 0)],
            [content(40, 2**40)],
            *([content(40, 7, codec)] for codec in Codec),
        ],
        decode=read_records,
        refusals=(RecordError,),
        encode=write_records,
        mended=with_checksums,
    ),
    Decoder(
        name="record batch as it came",
        examples=[[content()], [content(1, 0)]],
        decode=read_records,
        refusals=(RecordError,),
        encode=write_records,
    ),
    Decoder(
        name="question",
        examples=[[query.encode(one)] for one in QUESTIONS],
        decode=lambda frames: query.decode_question(first(frames)),
        refusals=(WireError,),
        encode=lambda value: [query.encode(value)],
    ),
    Decoder(
        name="answer",
        examples=[[query.encode(one)] for one in ANSWERS],
        decode=lambda frames: query.decode_answer(first(frames)),
        refusals=(WireError,),
        encode=lambda value: [query.encode(value)],
    ),
    Decoder(
        name="control command",
        examples=[[control.encode(one)] for one in COMMANDS],
        decode=lambda frames: control.decode_command(first(frames)),
        refusals=(WireError,),
        encode=lambda value: [control.encode(value)],
    ),
    Decoder(
        name="control answer",
        examples=[[control.encode(one)] for one in REPLIES],
        decode=lambda frames: control.decode_answer(first(frames)),
        refusals=(WireError,),
        encode=lambda value: [control.encode(value)],
    ),
    Decoder(
        name="record of the schema log",
        examples=[[*entries.encode(one)] for one in ENTRIES],
        decode=pair,
        refusals=(ValueError,),
        encode=lambda value: [*entries.encode(value)],
    ),
    Decoder(
        name="schema of Protobuf",
        examples=[[PROTO.encode()], [PARSED.encode()]],
        decode=lambda frames: compiled(text_of(frames), ()),
        refusals=(ValueError,),
        encode=lambda value: [value.encode()],
        cost=25,
    ),
    Decoder(
        name="descriptor of Protobuf",
        examples=[[base64.b64decode(PARSED)]],
        decode=lambda frames: compiled(base64.b64encode(first(frames)).decode(), ()),
        refusals=(ValueError,),
        encode=lambda value: [base64.b64decode(value)],
        cost=25,
    ),
    Decoder(
        name="commit of a group",
        examples=[[*commit.encode(COMMIT_KEY, commit.Commit(7, 1, 2_000, 3, 5, "note"))]],
        decode=lambda frames: commit.decode(*(*frames, None, None)[:2]),
        refusals=(CommitError,),
        encode=lambda value: [*commit.encode(*value)],
    ),
    Decoder(
        name="line of dafka produce --json",
        examples=[[b'{"value": {"base64": "a/8="}, "key": "k", "headers": {"a": "b"}}']],
        decode=lambda frames: from_json(first(frames)),
        refusals=(MisuseError,),
    ),
    Decoder(
        name="line of a ledger",
        examples=[
            [lines.encoded(line, KafkaPartition("orders", 3))]
            for line in (
                LedgerLine(7, 0, LineKind.BEGIN, 40),
                LedgerLine(7, 1, LineKind.ENTRY, 40, "A" * 32, 5, 2, Produced(9, 0, 1, 2)),
                LedgerLine(7, 2, LineKind.SKIP, 0, "B" * 32, 9),
                LedgerLine(7, 3, LineKind.OPEN, 42, "C" * 32),
            )
        ],
        decode=lambda frames: wanted(lines.decoded(first(frames), 7, 1)),
        refusals=(RefusedError,),
        encode=lambda value: [lines.encoded(value[0], value[1] or KafkaPartition("", 0))],
    ),
    Decoder(
        name="topic of Kafka clients",
        examples=[
            [catalog.encoded_topic(Topic("orders", 4, UUID(int=7), {"retention.ms": "1000"}))]
        ],
        decode=lambda frames: wanted(catalog.decoded_topic(first(frames))),
        refusals=(RefusedError,),
        encode=lambda value: [catalog.encoded_topic(value)],
    ),
    Decoder(
        name="what there is of a topic",
        examples=[
            [
                catalog.encoded_state(
                    catalog.TopicState(
                        Topic("orders", 4, UUID(int=7), {}), catalog.TopicStage.DELETED, 9
                    )
                )
            ]
        ],
        decode=lambda frames: wanted(catalog.decoded_state(first(frames))),
        refusals=(RefusedError,),
        encode=lambda value: [catalog.encoded_state(value)],
    ),
    Decoder(
        name="partition that is empty",
        examples=[
            [catalog.encoded_emptied(catalog.EmptiedPartition(KafkaPartition("orders", 3), 7))]
        ],
        decode=lambda frames: wanted(catalog.decoded_emptied(first(frames))),
        refusals=(RefusedError,),
        encode=lambda value: [catalog.encoded_emptied(value)],
    ),
    Decoder(
        name="request of a Kafka client",
        examples=[[frame] for frame in kafka_messages.requests(Random(31), 3)],
        decode=lambda frames: parse(first(frames)),
        refusals=(RequestError,),
    ),
    Decoder(
        name="batch of a Kafka client",
        examples=[
            [kafka_messages.client_batch()],
            [kafka_messages.client_batch([b"a" * 99] * 40, (9, 0, 5), Codec.ZSTD)],
        ],
        decode=lambda frames: checked_batch(first(frames)),
        refusals=(RecordError,),
        mended=with_batch_checksum,
    ),
    Decoder(
        name="endpoints",
        examples=[[b"tcp://127.0.0.1:5556"], [b"tcp://[::1]:80"], [b"tcp://host-1.example:9"]],
        decode=lambda frames: TowerEndpoints.parse(text_of(frames)),
        refusals=(MisuseError,),
        encode=lambda value: [value.inbound.encode()],
    ),
    Decoder(
        name="access file",
        examples=[[ACCESS.encode()]],
        decode=load_access,
        refusals=(MisuseError,),
        from_file=True,
        cost=5,
    ),
    Decoder(
        name="topology",
        examples=[[TOPOLOGY]],
        decode=load,
        refusals=(UnreadableError, InvalidError),
        from_file=True,
        cost=25,
    ),
]
