"""What a link can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.records.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from distributor.link.events import Hole


def no_topic(_topic: str) -> bool:
    """Return False: it holds for none."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """What a link can be told.

    Attributes:
        survey_interval_ms: How often both ends are asked what they hold.
        repair_after_ms: How long the target may lack, without moving, what the source has, before
            it is brought there whatever the flags say; None never does.
        bytes_per_s: How much it may send; None for as much as there is.
        records_per_s: The same.
        skips: Whether a topic goes on by itself behind what the source keeps no more.
        passes: Holes that are passed over, of each partition one; what is more is not.
        forget_after_ms: How long a partition has to stand still that the source lists no more, as
            nothing of it is kept, before the link forgets it.
        traced: Whether it looks for sampled records.
        codec: By what batches are compressed that are not yet.
    """

    survey_interval_ms: int = 5_000
    repair_after_ms: int | None = 10_000
    bytes_per_s: int | None = None
    records_per_s: int | None = None
    skips: Callable[[str], bool] = no_topic
    passes: Mapping[Partition, Hole] = field(default_factory=dict)
    forget_after_ms: int = 600_000
    traced: bool = False
    codec: Codec = Codec.NONE
