"""Which slots of the ring stores keep, as people write them: `0-2047` or `0-1364,2731-4095`."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SLOTS = 4_096
"""How many there are; a partition's follows from its address alone."""

_RANGE = re.compile(r"\s*([0-9]{1,4})\s*-\s*([0-9]{1,4})\s*")


def read_slots(text: str) -> tuple[range, ...]:
    """Read ranges of slots, each written with its first and last.

    Raises:
        ValueError: It is none, one is empty or beyond the ring, or they overlap.
    """
    found: list[range] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        one = range(int(match[1]), int(match[2]) + 1) if match else range(0)
        if not one or one.stop > SLOTS:
            raise ValueError(
                f"{part.strip()!r} is no range of slots: write FIRST-LAST within 0-{SLOTS - 1}"
            )
        found.append(one)
    found.sort(key=lambda one: one.start)
    for before, after in pairwise(found):
        if after.start < before.stop:
            raise ValueError(f"slot {after.start} is in two ranges of {text!r}")
    return tuple(found)


def shown_slots(ranges: Iterable[range]) -> str:
    """Write them as they are read; `all` for the whole ring."""
    written = ",".join(f"{one.start}-{one.stop - 1}" for one in ranges)
    return "all" if written == f"0-{SLOTS - 1}" else written


def slots_in(ranges: Iterable[range]) -> frozenset[int]:
    """Return the slots themselves."""
    return frozenset(slot for one in ranges for slot in one)


def ranges_of(slots: Iterable[int]) -> tuple[range, ...]:
    """Return the fewest ranges of some slots, ascending."""
    found: list[range] = []
    for slot in sorted(slots):
        if found and found[-1].stop == slot:
            found[-1] = range(found[-1].start, slot + 1)
        else:
            found.append(range(slot, slot + 1))
    return tuple(found)


def kept_too_seldom(stores: Sequence[Iterable[range]], copies: int) -> list[tuple[range, int]]:
    """Return the ranges that fewer than so many stores keep, and how many do."""
    changes = [0] * (SLOTS + 1)
    for ranges in stores:
        for one in ranges:
            changes[one.start] += 1
            changes[one.stop] -= 1
    found: list[tuple[range, int]] = []
    keepers = 0
    for slot, change in enumerate(changes[:SLOTS]):
        keepers += change
        if keepers >= copies:
            continue
        if found and found[-1][0].stop == slot and found[-1][1] == keepers:
            found[-1] = range(found[-1][0].start, slot + 1), keepers
        else:
            found.append((range(slot, slot + 1), keepers))
    return found
