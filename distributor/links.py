"""What the links of a running topology say of themselves, asked at their control ports."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distributor.control.client import ControlClient
from distributor.errors import CommandError
from distributor.processes import control_endpoints

if TYPE_CHECKING:
    from distributor.control.messages import LinkRow
    from topology.plan import Link, Plan

ASKED_AT_ONCE_MAX = 16
"""Threads: those that do not answer take two seconds each."""


@dataclass(slots=True)
class Told:
    """What was answered.

    Attributes:
        rows: What each link of the plan says, of those that answered.
        silent: Distributors that gave no answer, as sentences.
    """

    rows: dict[Link, LinkRow] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)


def ask_links(plan: Plan) -> Told:
    """Ask every distributor; nothing is told of a topology without control ports."""
    told = Told()
    ports = [(distributor, port) for distributor, port in control_endpoints(plan) if port]
    if not ports:
        return told
    with ThreadPoolExecutor(min(ASKED_AT_ONCE_MAX, len(ports)), "dafka-links") as pool:
        answers = list(pool.map(_ask, [port for _, port in ports]))
    for (distributor, _), answer in zip(ports, answers, strict=True):
        name = f"{distributor.cluster} level {distributor.level}"
        if isinstance(answer, str):
            told.silent.append(f"{name}: {answer}")
        elif [_place(row) for row in answer] != [_place(link) for link in distributor.links]:
            told.silent.append(f"{name}: runs other links than the file has: restart it")
        else:
            told.rows |= zip(distributor.links, answer, strict=True)
    return told


def _ask(endpoint: str) -> tuple[LinkRow, ...] | str:
    try:
        with ControlClient(endpoint) as client:
            return client.links()
    except CommandError as error:
        return str(error)


def _place(link: Link | LinkRow) -> tuple[str, int, int]:
    return (link.source, link.level, link.branch)
