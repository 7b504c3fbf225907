"""What a link does that is in shares: one row, as if it were one process."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from distributor.control.protocol import STOPPED_MAX, LinkRow

if TYPE_CHECKING:
    from collections.abc import Mapping

UNWRITTEN = "unwritten"
"""The state of a link of which no replica writes a share."""

_STATES = ("serving", "drained", "paused", "draining", "stuck", "silent", "superseded")
"""What a share may say, the best first."""


def whole(shares: Mapping[int, LinkRow], of: int, writer: str = "a replica") -> LinkRow:
    """Return what a link does.

    Args:
        shares: What each share does that is written, by its number; at least one.
        of: How many there are.
        writer: What writes them, for people.

    Returns:
        State, target and what it waits for are those of the share whose state is worst; what does
        not stand at the same target is named. What is counted by partitions adds up.
    """
    rows = [shares[number] for number in sorted(shares)]
    if of == 1:
        return rows[0]
    worst = max(rows, key=_badness)
    elsewhere = [
        f"share {number}/{of} {row.state} to {row.target}"
        for number, row in sorted(shares.items())
        if row.target != worst.target
    ]
    lacking = ", ".join(missing(shares, of))
    state = UNWRITTEN if lacking else worst.state
    waits_for = f"{writer} to write {lacking}" if lacking else worst.waits_for
    left = min((row for row in rows if row.left), key=lambda row: row.left_ms, default=worst)
    return LinkRow(
        source=worst.source,
        level=worst.level,
        branch=worst.branch,
        target=worst.target,
        state=state,
        next=worst.next,
        waits_for="; ".join(filter(None, [waits_for, *elsewhere])),
        switches=max(row.switches for row in rows),
        stall_ms=-1 if any(row.stall_ms < 0 for row in rows) else max(row.stall_ms for row in rows),
        diverged=sum(row.diverged for row in rows),
        overtaken=sum(row.overtaken for row in rows),
        refused=sum(row.refused for row in rows),
        shortened=sum(row.shortened for row in rows),
        stopped=tuple(islice(chain.from_iterable(row.stopped for row in rows), STOPPED_MAX)),
        topics=worst.topics,
        left=left.left,
        starved=left.starved,
        left_ms=left.left_ms,
    )


def missing(written: Mapping[int, LinkRow], of: int) -> list[str]:
    """Return the shares that nobody writes, for people."""
    return [f"share {number}/{of}" for number in range(of) if number not in written]


def _badness(row: LinkRow) -> int:
    """A state that a newer replica knows is worse than all that are known here."""
    return _STATES.index(row.state) if row.state in _STATES else len(_STATES)
