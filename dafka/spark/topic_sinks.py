"""How many partitions sinks have in a topic.

What the topic's register says, once a run was written; before that what the option says, or as many
as the topic has for Kafka clients, or as a gateway would give it. Tasks ask, as rows name topics
that the driver does not know; so the answer is kept for a while.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dafka.errors import RefusedError
from dafka.gateway.catalog import CATALOG, PARTITIONS_USUAL, Catalog
from dafka.groups.membership import decode
from dafka.groups.runs import group_of_topic, sink_in
from dafka.model import mark_of
from dafka.node.ledgers import read_catalog
from dafka.process.clock import CLOCK
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient

if TYPE_CHECKING:
    from dafka.cluster import Cluster
    from dafka.process.clock import Clock
    from dafka.query.client import StoreClient
    from dafka.spark.options import ClusterOptions, SinkOptions

KEPT_MS = 60_000
"""For so long an answer holds. Nothing changes it but the loss of all disks."""

KNOWN_MAX = 10_000
"""Of so many topics; then all are asked for anew."""

_known: dict[tuple[int, ClusterOptions, str], tuple[int, int]] = {}
"""By process, as mirrors are, and topic: until when it is known, and what."""


def group_for(cluster: Cluster, topic: str) -> str:
    """The group in whose register is what sinks with this key have in a topic."""
    mark = "" if cluster.credentials is None else mark_of(cluster.own_address("0" * 32))
    return group_of_topic(topic, mark)


def partitions_of(options: SinkOptions, topic: str, clock: Clock = CLOCK) -> int:
    """Return to how many partitions of a topic rows are dealt.

    Raises:
        QueryError: No store answers.
    """
    if options.partitions is not None:
        return options.partitions
    key = os.getpid(), options.cluster, topic
    until_ms, known = _known.get(key, (0, 0))
    if clock.now_ms() < until_ms:
        return known
    cluster = options.cluster.open()
    with ClusterClient(cluster, LOOK_TIMEOUT_MS) as stores:
        claimed = _claimed(stores, group_for(cluster, topic))
        if claimed is None:
            # Not for long: the first run that is written settles it.
            return stores.first(lambda store: _of_kafka(store, topic)) or PARTITIONS_USUAL
    if len(_known) >= KNOWN_MAX:
        _known.clear()
    _known[key] = clock.now_ms() + KEPT_MS, claimed
    return claimed


def _claimed(stores: ClusterClient, group: str) -> int | None:
    """What the stores have agreed on; None if that is nothing yet, as far as they say."""
    roster = stores.best(lambda store: store.members(group), lambda told: told.accepted)
    sink = sink_in(decode(roster.membership))
    return None if sink is None else len(sink.ends)


def _of_kafka(store: StoreClient, topic: str) -> int:
    """How many partitions clients of Kafka see; 0 if none, or it may not be known."""
    catalog = Catalog()
    try:
        for place, there in sorted(store.ranges(CATALOG).items()):
            catalog.add(read_catalog(store, place, there.start, there.stop))
    except RefusedError:  # a sink need not have the right to read that
        return 0
    return catalog.numbers(topic)
