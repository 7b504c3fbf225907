"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """A number of things, as in `1 record` and `1,000 records`.

    Args:
        number: How many.
        what: One of them.
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
