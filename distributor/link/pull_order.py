"""Whose turn it is to pull: links of several clusters see the same hole in a target.

Each of them could fill it, and stores ignore what they have; but all at once would carry everything
as often as there are links. So each waits a little longer than the one before it. What one brings
moves the target, and a target that moves is left alone by the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distributor.link.settings import LinkSettings
    from topology.plan import Link

SURVEYS_PER_TURN = 2
"""How long one waits for the one before, in survey intervals: what that brings is seen by then."""


def patient(
    settings: LinkSettings, links: Iterable[Link], source: str, target: str
) -> LinkSettings:
    """Return the settings of a link that lets those before it pull first.

    Args:
        settings: As they are for whoever is the first.
        links: All of the plan.
        source: Where the link comes from.
        target: The cluster it serves.
    """
    if settings.repair_after_ms is None:
        return settings
    wait_ms = turn(links, source, target) * SURVEYS_PER_TURN * settings.survey_interval_ms
    return replace(settings, repair_after_ms=settings.repair_after_ms + wait_ms)


def turn(links: Iterable[Link], source: str, target: str) -> int:
    """Return how many clusters pull into `target` before `source` does."""
    able = [link for link in links if target in link.targets]
    # Those that serve it anyway come before those that do so only instead of another cluster.
    able.sort(key=lambda link: link.target != target)
    sources: list[str] = [link.source for link in able]
    return list(dict.fromkeys(sources)).index(source)
