"""In which order to try the seeds of a simulator."""

from __future__ import annotations


def shown_by(seed, count):
    """The first seeds, in front of them the one that is known to show what is looked for.

    A simulator that has changed may show it by another one: then all are tried in turn.
    """
    return [seed, *(one for one in range(count) if one != seed)]
