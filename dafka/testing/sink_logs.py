"""What logs must show that runs of Spark's sinks were written to: ADR 44, held to rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


class Row(NamedTuple):
    """A row, as its value says: of which run, attempt and task, and which of that task's."""

    key: str
    number: int
    attempt: int
    task: int
    row: int

    @property
    def run(self) -> Run:
        """Its run: of which key, and its number."""
        return self.key, self.number

    def encode(self) -> bytes:
        """Its value."""
        return "|".join(map(str, self)).encode()


Run = tuple[str, int]

Logs = dict[str, dict[str, list[Row]]]
"""What each topic has, by address."""


def row_of(value: bytes) -> Row:
    """The inverse of `Row.encode`."""
    key, *numbers = value.decode().split("|")
    return Row(key, *map(int, numbers))


def problems(
    logs: Logs,
    topics: Mapping[int, Sequence[str]],
    rows: int,
    written: Collection[Run],
) -> list[str]:
    """What is wrong, once nobody is at it any more.

    Args:
        logs: What is there.
        topics: Of each attempt, those that it has rows for.
        rows: How many it has for each.
        written: Runs whose drivers were told that they are.
    """
    found = [problem for topic, parts in logs.items() for problem in _orders(topic, parts)]
    attempts: dict[Run, set[int]] = {}
    counts: Counter[tuple[str, Run]] = Counter()
    for topic, parts in logs.items():
        times = Counter(row for some in parts.values() for row in some)
        found += [f"{topic}: {row} is there {n} times" for row, n in times.items() if n > 1]
        for row in times:
            attempts.setdefault(row.run, set()).add(row.attempt)
            counts[topic, row.run] += 1
    broken_off = _alone(logs) - set(written)
    for run, tried in attempts.items():
        (one, *others) = sorted(tried)
        if others:
            found.append(f"of {run} there are rows of several attempts: {one}, {others}")
        # In the first of its topics, so in all of them; in others only it cannot be.
        there = {topic: counts[topic, run] for topic in logs if counts[topic, run]}
        if there != dict.fromkeys(sorted(topics[one]), rows) and run not in broken_off:
            found.append(f"of {run} there is {there}, not {rows} rows in each of {topics[one]}")
    found += [f"{run} was written, and is nowhere" for run in set(written) - attempts.keys()]
    return found


def _alone(logs: Logs) -> set[Run]:
    """Jobs that found no majority: each is alone in its partitions, and nobody can end it."""
    runs = [{row.run for row in rows} for parts in logs.values() for rows in parts.values()]
    together = {run for some in runs if len(some) > 1 for run in some}
    return {run for some in runs for run in some} - together


def _orders(topic: str, parts: Mapping[str, list[Row]]) -> Iterator[str]:
    orders = [_begun(rows) for rows in parts.values()]
    for order in orders:
        if len(order) != len(set(order)):
            yield f"{topic}: a run is begun before another one is ended: {order}"
        for key in {key for key, _ in order}:
            numbers = [number for one, number in order if one == key]
            if numbers != sorted(numbers):
                yield f"{topic}: the runs of {key} are in another order: {numbers}"
    shared = [order for order in orders if len(order) > 1]  # others are of one job alone
    if any(order != shared[0] for order in shared):
        yield f"{topic}: partitions have other orders: {shared}"


def _begun(rows: Sequence[Row]) -> list[Run]:
    """The runs of a partition, each as often as it is begun."""
    runs = [row.run for row in rows]
    befores: list[Run | None] = [None, *runs]
    return [run for before, run in zip(befores, runs, strict=False) if run != before]
