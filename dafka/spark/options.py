"""The options of source and sink, as Spark's Kafka source names them where they mean the same.

Options are text from a user: each is checked on the driver, before any job starts, and refused
with its name and what is allowed.

How a job's processes prove who they are: key files on every machine that runs a part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.cluster import Cluster, credentials_in
from dafka.errors import MisuseError
from dafka.groups.commit import SINKS
from dafka.groups.commit import TOPIC as COMMITS
from dafka.groups.membership import blocking_of
from dafka.groups.runs import STAGED
from dafka.model import SLOTS, checked_topic
from dafka.records.compression import Codec
from dafka.spark.bounds import (
    FROM_THE_BEGINNING,
    TO_THE_END,
    Bound,
    TopicSelection,
    assigned,
    bound_of,
    by_partition,
    whole,
)
from dafka.spark.given import Given
from dafka.wire.dialect import DEFAULT_DIALECT, dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Partition


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
        wire: How the cluster's nodes write to each other, see `Cluster`.
    """

    servers: tuple[str, ...]
    towers: tuple[str, ...] = ()
    access: str | None = None
    key: str | None = None
    insecure: bool = False
    wire: str = DEFAULT_DIALECT

    def open(self) -> Cluster:
        """The cluster, as this process reaches it.

        Raises:
            MisuseError: A key file cannot be used.
        """
        credentials = None
        if self.access is not None and self.key is not None:
            credentials = credentials_in(Path(self.access), Path(self.key))
        return Cluster(
            self.towers,
            self.servers,
            credentials=credentials,
            insecure=self.insecure,
            wire=self.wire,
        )


SOURCE_OPTIONS = (
    *("servers", "towers", "access", "key", "insecure", "wire"),
    *("subscribe", "subscribePattern", "assign"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    "startingOffsetsByTimestampStrategy",
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxRecordsPerPartition"),
    *("failOnDataLoss", "includeHeaders"),
)
"""What a source understands; `towers` it does not need, but the same options fit a sink."""

SINK_OPTIONS = (
    *("servers", "towers", "access", "key", "insecure", "wire"),
    *("topic", "partitions", "minAcks", "runId"),
)
"""What a sink understands."""

COPYING_OPTIONS = (*SINK_OPTIONS, "logStarts", "compression")
"""What a sink for whole batches understands."""

SPARKS_OWN = ("checkpointLocation", "path", "queryName")
"""Options of Spark itself, which it shows to a sink too."""

RECORDS_PER_TASK = 250_000
"""Records one task reads if nothing else is said: a quarter of a second's work, several times what
a task costs."""

TRIGGER_DELAY_MS = 15 * 60 * 1_000
"""How long a stream waits at most for `minOffsetsPerTrigger`, if nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a source, checked.

    Attributes:
        cluster: Which.
        topics: What is read.
        starting: Where reading begins.
        ending: Where a batch ends.
        records_per_trigger: At most so many records in a micro-batch.
        records_per_trigger_min: At least so many, unless it would be waited for too long.
        trigger_delay_ms: How long.
        tasks_min: At least so many tasks, as far as there are records.
        records_per_task: At most so many records in one task.
        fail_on_data_loss: Whether records that are gone end the query, or are passed over.
        headers: Whether there is a column of headers.
    """

    cluster: ClusterOptions
    topics: TopicSelection
    starting: Bound = FROM_THE_BEGINNING
    ending: Bound = TO_THE_END
    records_per_trigger: int | None = None
    records_per_trigger_min: int | None = None
    trigger_delay_ms: int = TRIGGER_DELAY_MS
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
    given = Given(options)
    given.check_names((*also, *SOURCE_OPTIONS), told=stream is not None)
    if stream is False:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            given.refuse(name, "a batch has no triggers")
    if stream is True:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            given.refuse(name, "a stream has no end")
    most, least = given.number("maxOffsetsPerTrigger"), given.number("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise MisuseError(
            f"option 'minOffsetsPerTrigger' must be at most 'maxOffsetsPerTrigger', {most}: {least}"
        )
    delay_ms = given.duration_ms("maxTriggerDelay")
    return SourceOptions(
        cluster=_cluster(given),
        topics=_topics(given),
        starting=_starting(given, stream=stream is True),
        ending=_ending(given),
        records_per_trigger=most,
        records_per_trigger_min=least,
        trigger_delay_ms=TRIGGER_DELAY_MS if delay_ms is None else delay_ms,
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
        partitions: How many sinks have in a topic, if that is said; see `dafka.spark.topic_sinks`.
        min_acks: How many distinct stores must have a record.
        acks_given: Whether that is said; if not, fewer do where fewer stores keep a slot.
        run_id: Names a batch job that may be repeated.
        log_starts: For whole batches: where partitions begin of which their source has no more than
            that.
        codec: For whole batches: how those are compressed that are not yet.
        batch_bytes: Size at which a batch goes out.
        silence_s: How long no store may acknowledge anything before a task fails, and is tried
            again.
        stalled_s: How long nothing may move of a run that somebody else may be publishing before
            it is helped.
    """

    cluster: ClusterOptions
    topic: str | None = None
    partitions: int | None = None
    min_acks: int = 1
    acks_given: bool = False
    run_id: str | None = None
    log_starts: Mapping[Partition, int] = field(default_factory=dict)
    codec: Codec = Codec.NONE
    batch_bytes: int = 256 * 1024
    silence_s: float = 60.0
    stalled_s: float = 0.5


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
    given = Given(options)
    given.check_names(
        (*also, *(COPYING_OPTIONS if copying else SINK_OPTIONS), *SPARKS_OWN), told=True
    )
    if stream:
        given.refuse("runId", "a stream's own id does it")
    cluster = replace(_cluster(given), towers=given.endpoints("towers"))
    if copying:
        given.refuse("partitions", "whole batches have their own")
        cluster.open().checked_mirroring()
    else:
        _check_rights(cluster.open())
    servers = cluster.servers
    # So many that each majority of the stores has one of them: one of three may be down.
    usual = 1 if copying else blocking_of(len(servers))
    min_acks = given.number("minAcks") or usual
    if min_acks > len(servers):
        raise MisuseError(
            f"option 'minAcks' must be 1 to {len(servers)}, the number of 'servers': {min_acks}"
        )
    partitions = given.number("partitions")
    if partitions is not None and partitions > SLOTS:
        raise MisuseError(f"option 'partitions' must be 1 to {SLOTS}: {partitions}")
    topic = given.text("topic")
    return SinkOptions(
        cluster=cluster,
        topic=None if topic is None else _checked("topic", topic),
        partitions=partitions,
        min_acks=min_acks,
        acks_given=given.number("minAcks") is not None,
        run_id=given.text("runId"),
        log_starts=_log_starts(given),
        codec=_codec(given),
    )


def _cluster(given: Given) -> ClusterOptions:
    access, key = given.text("access"), given.text("key")
    if (access is None) != (key is None):
        raise MisuseError("the options 'access' and 'key' (files) go together")
    wire = given.text("wire") or DEFAULT_DIALECT
    dialect(wire)
    return ClusterOptions(
        given.endpoints("servers"),
        access=access,
        key=key,
        insecure=given.flag("insecure", default=False),
        wire=wire,
    )


def _check_rights(cluster: Cluster) -> None:
    """Refuse a key that may not do what a sink does: no store would say why it does not answer."""
    if cluster.credentials is None:
        return
    rights = cluster.credentials.rights
    lacking = [
        topic
        for topic in (STAGED, COMMITS)
        if not (rights.may_read(topic) and rights.may_write(topic))
    ]
    if lacking:
        raise MisuseError(
            f"the key of a sink needs to read and write {', '.join(lacking)} beside its topics: "
            "rows are staged and agreed on there"
        )
    if not rights.may_commit(SINKS):
        raise MisuseError(f"the key of a sink needs the groups {SINKS}*, as it is limited to some")


def _topics(given: Given) -> TopicSelection:
    options = ("subscribe", "subscribePattern", "assign")
    said = [name for name in options if given.text(name) is not None]
    if len(said) != 1:
        raise MisuseError(
            "one of the options 'subscribe' (topics, with commas), 'subscribePattern' (a regular "
            "expression) and 'assign' (partitions, JSON) is needed, and not two"
        )
    (name,) = said
    text = given.text(name) or ""
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise MisuseError(
                f"option 'subscribePattern' is no regular expression: {text!r}: {error}"
            ) from error
        return TopicSelection(pattern=text)
    if name == "assign":
        partitions = assigned(name, text)
        topics = sorted({_checked(name, partition.topic) for partition in partitions})
        return TopicSelection(tuple(topics), partitions=partitions)
    return TopicSelection(tuple(_checked(name, one.strip()) for one in text.split(",")))


def _checked(option: str, topic: str) -> str:
    try:
        return checked_topic(topic)
    except MisuseError as error:
        raise MisuseError(f"option {option!r}: {error}") from error


def _starting(given: Given, *, stream: bool) -> Bound:
    """Where reading begins: a stream, as Spark's Kafka source, with what comes from now on."""
    strict = _strict(given)
    bound = _by_time(given, "starting", latest=False, strict=strict)
    text = given.text("startingOffsets")
    if bound is not None:
        return bound
    if text is None:
        return Bound(latest=stream)
    return bound_of("startingOffsets", text, ("earliest", "latest"), latest=False)


def _ending(given: Given) -> Bound:
    bound = _by_time(given, "ending", latest=True, strict=False)
    text = given.text("endingOffsets")
    if bound is not None:
        return bound
    if text is None:
        return TO_THE_END
    return bound_of("endingOffsets", text, ("latest",), latest=True)


def _by_time(given: Given, edge: str, *, latest: bool, strict: bool) -> Bound | None:
    """Where reading begins or ends by time, if options say it so; more than one is refused."""
    names = [f"{edge}{kind}" for kind in ("Timestamp", "OffsetsByTimestamp", "Offsets")]
    said = [name for name in names if given.text(name) is not None]
    if len(said) > 1:
        given.refuse(said[1], f"{said[0]!r} says where to {'end' if latest else 'begin'}")
    if not said or said[0] == names[-1]:
        return None
    text = given.text(said[0]) or ""
    if said[0] == names[0]:
        timestamp_ms = whole(text)
        if timestamp_ms is None:
            raise MisuseError(f"option {names[0]!r} must be milliseconds since 1970, got {text!r}")
        return Bound(latest, timestamp_ms=timestamp_ms, strict=strict)
    return Bound(latest, timestamps=by_partition(said[0], text), strict=strict)


def _strict(given: Given) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = (given.text(name) or "latest").lower()
    if text not in ("error", "latest"):
        raise MisuseError(f"option {name!r} must be 'error' or 'latest', got {text!r}")
    return text == "error"


def _codec(given: Given) -> Codec:
    try:
        return Codec.named(given.text("compression") or "none")
    except MisuseError as error:
        raise MisuseError(f"option 'compression': {error}") from error


def _log_starts(given: Given) -> dict[Partition, int]:
    text = given.text("logStarts")
    return {} if text is None else by_partition("logStarts", text)
