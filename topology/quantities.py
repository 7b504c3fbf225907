"""Sizes and times as people write them: `1KB`, `64MiB`, `7d`."""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z]*)\s*")

_BYTES = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1_000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1_024**power for power, letter in enumerate("kmgt", 1)},
}

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Of each unit of time."""

_STEPS = "B", "KB", "MB", "GB", "TB", "PB"


def bytes_of(text: str) -> int:
    """Read a number of bytes: `100`, `1KB` (1,000) or `1KiB` (1,024).

    Raises:
        ValueError: It is none.
    """
    return _read(text, _BYTES, "a number of bytes such as 100, 1KB or 64KiB")


def seconds_of(text: str) -> int:
    """Read a time: `90s`, `30m`, `12h` or `7d`.

    Raises:
        ValueError: It is none.
    """
    return _read(text, SECONDS, "a time such as 90s, 30m, 12h or 7d")


def shown_bytes(number: float) -> str:
    """Write a number of bytes with at most one decimal place."""
    for step in _STEPS[:-1]:
        if number < 999.95:
            return f"{number:.0f} {step}" if step == "B" else f"{number:.1f} {step}"
        number /= 1_000
    return f"{number:,.1f} {_STEPS[-1]}"


def _read(text: str, units: dict[str, int], what: str) -> int:
    match = _QUANTITY.fullmatch(text)
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None or not int(match[1]):
        raise ValueError(f"{text!r} is not {what}")
    return int(match[1]) * unit
