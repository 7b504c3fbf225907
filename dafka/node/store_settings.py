"""What a store can be told, and what every store keeps for its cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from dafka.gateway.catalog import CATALOG, CHANGES, TOPICS
from dafka.gateway.lines import LEDGER
from dafka.groups.commit import CONTROLLERS, KEPT_MS
from dafka.groups.commit import TOPIC as COMMITS_TOPIC
from dafka.groups.runs import STAGED, STAGED_KEPT_MS
from dafka.model import ALL_SLOTS, Slots
from dafka.query.service import ANSWER_BOUNDS, AnswerBounds
from dafka.storage.clocks import ALONE
from dafka.storage.forgetting import FORGET_AFTER_MS
from dafka.storage.retention import Retention

COMMITS_KEPT = Retention(topics=COMMITS_TOPIC, age_ms=KEPT_MS)
"""The last rule of every store."""

GATEWAYS_KEPT = (
    *(Retention(topics=topic) for topic in (LEDGER, TOPICS, CATALOG)),
    Retention(topics=CHANGES, age_ms=KEPT_MS),
)
"""The first rules of every store: what of ledgers is not needed neither age nor size says; what is
said of topics is kept. What was asked for nobody needs once it was said what followed."""

CONTROLLERS_KEPT = Retention(topics=CONTROLLERS, bytes_max=64 * 1024 * 1024)
"""Of what controllers want only the last record counts, which may have some hundred kilobytes."""

STAGED_KEPT = Retention(topics=STAGED, age_ms=STAGED_KEPT_MS)
"""What sinks of Spark have staged is published a moment later, or never. An operator's rule for it
goes before."""


class StoreOptions(TypedDict, total=False):
    """Those of `StoreSettings` that a store's owner gives."""

    deletable: bool
    forget_after_ms: int
    number: int
    slots: Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What a store can be told.

    Attributes:
        deletable: Whether topics may be deleted over the query port.
        forget_after_ms: How long a partition has to be empty before it is forgotten.
        number: The cluster's among those whose records come here; `ALONE` where there are none.
        bounds: Of an answer.
        slots: Which of the ring it is to keep.
        joins: Whether an empty disk keeps them only when it has what other stores have of them.
    """

    deletable: bool = False
    forget_after_ms: int = FORGET_AFTER_MS
    number: int = ALONE
    bounds: AnswerBounds = ANSWER_BOUNDS
    slots: Slots = ALL_SLOTS
    joins: bool = False


STORE_SETTINGS = StoreSettings()
"""Those of a store that is told nothing."""
