"""The options of source and sink, as Spark's Kafka source names them where they mean the same.

Options are text from a user: each is checked on the driver, before any job starts, and refused
with its name and what is allowed.

How a job's processes prove who they are: key files on every machine that runs a part of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.cluster import Cluster, credentials_in
from dafka.errors import MisuseError
from dafka.model import Endpoint, Partition, checked_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster of a job. Key files stay where they are, only their names travel.

    Attributes:
        servers: Query ports of the cluster's stores: for a sink all of them, for who writes on must
            know what there is.
        towers: Where its nodes find each other; a sink needs them.
        access: The cluster's access file; None in a cluster without keys.
        key: The job's secret key file.
        insecure: Anybody may reach the job's nodes, also at hosts that are not this machine's own.
    """

    servers: tuple[str, ...]
    towers: tuple[str, ...] = ()
    access: str | None = None
    key: str | None = None
    insecure: bool = False

    def open(self) -> Cluster:
        """The cluster, as this process reaches it.

        Raises:
            MisuseError: A key file cannot be used.
        """
        credentials = None
        if self.access is not None and self.key is not None:
            credentials = credentials_in(Path(self.access), Path(self.key))
        return Cluster(self.towers, self.servers, credentials=credentials, insecure=self.insecure)


SOURCE_OPTIONS = (
    *("servers", "towers", "access", "key", "insecure", "subscribe", "subscribePattern"),
    *("startingOffsets", "endingOffsets", "startingTimestamp"),
    *("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"),
    *("failOnDataLoss", "includeHeaders"),
)
"""What a source understands; `towers` it does not need, but the same options fit a sink."""

SINK_OPTIONS = (
    *("servers", "towers", "access", "key", "insecure"),
    *("topic", "minAcks", "runId"),
)
"""What a sink understands."""

COPYING_OPTIONS = (*SINK_OPTIONS, "logStarts")
"""What a sink for whole batches understands."""

SPARKS_OWN = ("checkpointLocation", "path", "queryName")
"""Options of Spark itself, which it shows to a sink too."""

RECORDS_PER_TASK = 250_000
"""Records one task reads if nothing else is said: a quarter of a second's work, several times what
a task costs."""

_LATEST, _EARLIEST = -1, -2
"""How Spark's Kafka source writes the two in its JSON."""


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics are read: the ones named, or those whose whole name matches."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def wants(self, topic: str) -> bool:
        """Whether `topic` is read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.names


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends.

    Attributes:
        latest: At the end of what there is, not at its beginning.
        timestamp_ms: At the first record of this time or later; to be settled by asking.
        sequences: For some partitions, the sequence itself, or `_LATEST` or `_EARLIEST`.
    """

    latest: bool = False
    timestamp_ms: int | None = None
    sequences: Mapping[Partition, int] = field(default_factory=dict)

    def of(self, partition: Partition, there: range) -> int:
        """The sequence this means for a partition that holds `there`."""
        sequence = self.sequences.get(partition, _LATEST if self.latest else _EARLIEST)
        if sequence == _LATEST:
            return there.stop
        if sequence != _EARLIEST:
            return sequence
        return there.start


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a source, checked.

    Attributes:
        cluster: Which.
        topics: What is read.
        starting: Where reading begins.
        ending: Where a batch ends.
        records_per_trigger: At most so many records in a micro-batch.
        tasks_min: At least so many tasks, as far as there are records.
        records_per_task: At most so many records in one task.
        fail_on_data_loss: Whether records that are gone end the query, or are passed over.
        headers: Whether there is a column of headers.
    """

    cluster: ClusterOptions
    topics: TopicSelection
    starting: Bound = Bound()
    ending: Bound = Bound(latest=True)
    records_per_trigger: int | None = None
    tasks_min: int = 1
    records_per_task: int = RECORDS_PER_TASK
    fail_on_data_loss: bool = True
    headers: bool = False


def source_options(
    options: Mapping[str, str], *, stream: bool | None = None, also: Sequence[str] = ()
) -> SourceOptions:
    """Check the options of a source.

    Args:
        options: By name, in whatever case.
        stream: What the source is for; None while that is not known.
        also: Options that have been dealt with already, to be named among those there are.

    Raises:
        MisuseError: One cannot be used; the message names it and says what is allowed.
    """
    given = _Given(options)
    given.check_names((*also, *SOURCE_OPTIONS))
    if stream is False:
        given.refuse("maxOffsetsPerTrigger", "a batch has no triggers")
    if stream is True:
        given.refuse("endingOffsets", "a stream has no end")
    return SourceOptions(
        cluster=_cluster(given),
        topics=_topics(given),
        starting=_starting(given),
        ending=_bound(given, "endingOffsets", Bound(latest=True), "latest"),
        records_per_trigger=given.number("maxOffsetsPerTrigger"),
        tasks_min=given.number("minPartitions") or 1,
        records_per_task=given.number("maxRecordsPerPartition") or RECORDS_PER_TASK,
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        headers=given.flag("includeHeaders", default=False),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a sink, checked.

    Attributes:
        cluster: Which.
        topic: Where rows without a topic of their own go.
        min_acks: How many distinct stores must have a record.
        run_id: Names a batch job that may be repeated.
        log_starts: For whole batches: where partitions begin of which their source has no more than
            that.
        batch_bytes: Size at which a batch goes out.
        held_bytes_max: What a repetition holds back in memory; more goes to a temporary file.
        silence_s: How long no store may acknowledge anything before a task fails, and is tried
            again.
    """

    cluster: ClusterOptions
    topic: str | None = None
    min_acks: int = 1
    run_id: str | None = None
    log_starts: Mapping[Partition, int] = field(default_factory=dict)
    batch_bytes: int = 256 * 1024
    held_bytes_max: int = 32 * 1024 * 1024
    silence_s: float = 60.0


def sink_options(
    options: Mapping[str, str], *, stream: bool, copying: bool = False, also: Sequence[str] = ()
) -> SinkOptions:
    """Check the options of a sink.

    Args:
        options: By name, in whatever case.
        stream: What the sink is for.
        copying: Whether it is one for whole batches.
        also: Options that have been dealt with already, to be named among those there are.

    Raises:
        MisuseError: One cannot be used; the message names it and says what is allowed.
    """
    given = _Given(options)
    given.check_names((*also, *(COPYING_OPTIONS if copying else SINK_OPTIONS), *SPARKS_OWN))
    if stream:
        given.refuse("runId", "a stream's own id does it")
    cluster = replace(_cluster(given), towers=given.endpoints("towers"))
    if copying:
        cluster.open().checked_mirroring()
    servers = cluster.servers
    min_acks = given.number("minAcks") or 1
    if min_acks > len(servers):
        raise MisuseError(
            f"option 'minAcks' must be 1 to {len(servers)}, the number of 'servers': {min_acks}"
        )
    topic = given.text("topic")
    return SinkOptions(
        cluster=cluster,
        topic=None if topic is None else _checked("topic", topic),
        min_acks=min_acks,
        run_id=given.text("runId"),
        log_starts=_log_starts(given),
    )


class _Given:
    """Options as the user gave them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def check_names(self, known: Iterable[str]) -> None:
        names = {name.lower(): name for name in known}
        for name in self._options:
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"did you mean {names[near[0]]!r}?" if near else "there is none like it;"
                raise MisuseError(
                    f"unknown option {name!r}: {hint} known are {', '.join(names.values())}"
                )

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def refuse(self, name: str, reason: str) -> None:
        if self.text(name) is not None:
            raise MisuseError(f"option {name!r} cannot be used here: {reason}")

    def endpoints(self, name: str) -> tuple[str, ...]:
        text = self.text(name)
        if not text:
            raise MisuseError(f"option {name!r} is needed: tcp://HOST:PORT, or several with commas")
        try:
            return tuple(str(Endpoint.parse(part.strip())) for part in text.split(","))
        except MisuseError as error:
            raise MisuseError(f"option {name!r}: {error}") from error

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 63:
            raise MisuseError(f"option {name!r} must be a whole number above 0, got {text!r}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise MisuseError(f"option {name!r} must be true or false, got {text!r}")
        return text.lower() == "true"


def _cluster(given: _Given) -> ClusterOptions:
    access, key = given.text("access"), given.text("key")
    if (access is None) != (key is None):
        raise MisuseError("the options 'access' and 'key' (files) go together")
    return ClusterOptions(
        given.endpoints("servers"),
        access=access,
        key=key,
        insecure=given.flag("insecure", default=False),
    )


def _topics(given: _Given) -> TopicSelection:
    names, pattern = given.text("subscribe"), given.text("subscribePattern")
    if (names is None) == (pattern is None):
        raise MisuseError(
            "one of the options 'subscribe' (topics, with commas) and 'subscribePattern' "
            "(a regular expression) is needed, and not both"
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise MisuseError(
                f"option 'subscribePattern' is no regular expression: {pattern!r}: {error}"
            ) from error
        return TopicSelection(pattern=pattern)
    assert names is not None
    return TopicSelection(tuple(_checked("subscribe", name.strip()) for name in names.split(",")))


def _checked(option: str, topic: str) -> str:
    try:
        return checked_topic(topic)
    except MisuseError as error:
        raise MisuseError(f"option {option!r}: {error}") from error


def _starting(given: _Given) -> Bound:
    text = given.text("startingTimestamp")
    if text is None:
        return _bound(given, "startingOffsets", Bound(), "earliest", "latest")
    given.refuse("startingOffsets", "'startingTimestamp' says where to begin")
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 63:
        raise MisuseError(
            f"option 'startingTimestamp' must be milliseconds since 1970, got {text!r}"
        )
    return Bound(timestamp_ms=int(text))


def _bound(given: _Given, name: str, default: Bound, *words: str) -> Bound:
    text = given.text(name)
    if text is None:
        return default
    if text.lower() in words:
        return Bound(latest=text.lower() == "latest")
    special = (_LATEST, _EARLIEST) if "earliest" in words else (_LATEST,)
    return Bound(default.latest, sequences=_sequences(name, text, words, special))


def _log_starts(given: _Given) -> dict[Partition, int]:
    text = given.text("logStarts")
    return {} if text is None else _sequences("logStarts", text, (), ())


def _sequences(
    name: str, text: str, words: Sequence[str], special: tuple[int, ...]
) -> dict[Partition, int]:
    allowed = " or ".join([*map(repr, words), '\'{"TOPIC": {"PARTITION": SEQUENCE}}\''])
    try:
        return {
            Partition(topic, address): _sequence(sequence, special)
            for topic, addresses in json.loads(text).items()
            for address, sequence in addresses.items()
        }
    except (ValueError, AttributeError, RecursionError) as error:
        raise MisuseError(f"option {name!r} must be {allowed}, got {text!r}: {error}") from error


def _sequence(value: object, special: tuple[int, ...]) -> int:
    if type(value) is int and (0 <= value < 1 << 63 or value in special):
        return value
    words = f" (or {' or '.join(map(str, special))})" if special else ""
    raise ValueError(f"a sequence is a number from 0 on{words}, not {value!r}")
