"""Times as people give them to commands: a day and an hour, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from dafka.errors import MisuseError
from topology.quantities import SECONDS

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


def time_ms(given: str) -> int:
    """Return milliseconds since 1970 of a time in ISO 8601; in UTC, if it says no zone.

    Raises:
        MisuseError: It is none.
    """
    try:
        time = datetime.fromisoformat(given)
    except ValueError as error:
        raise MisuseError(f"time {given!r} is none: write 2026-11-23T08:00:00") from error
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)


def duration_ms(given: str) -> int:
    """Return the milliseconds of a number of seconds, minutes, hours or days.

    Raises:
        MisuseError: It is none.
    """
    found = _DURATION.fullmatch(given)
    if found is None:
        raise MisuseError(f"duration {given!r} is none: write 90s, 15m, 2h or 7d")
    return int(found[1]) * SECONDS[found[2]] * 1_000


def moment_ms(given: str, wall_ms: int) -> int:
    """Return milliseconds since 1970, 0 at least, of a time or of how long ago it is.

    Args:
        given: As `time_ms` or `duration_ms` take it.
        wall_ms: The time now.

    Raises:
        MisuseError: It is neither.
    """
    if _DURATION.fullmatch(given):
        return max(0, wall_ms - duration_ms(given))
    try:
        return max(0, time_ms(given))
    except MisuseError as error:
        raise MisuseError(
            f"time {given!r} is none: write 2026-11-23T08:00:00, or how long ago: 90s, 15m, 2h, 7d"
        ) from error
