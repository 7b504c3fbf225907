"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """A number of things, as in `1 record` and `1,000 records`.

    Args:
        number: How many.
        what: One of them.
    """
    plural = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{plural * (number != 1)}"
