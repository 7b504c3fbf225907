"""Whether a replica lives: it answers pings, and its flows turn.

TCP notices neither a frozen process nor a blocked loop, and an answer alone says nothing of flows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributor.control.events import SessionEnd
from distributor.control.messages import Ping

if TYPE_CHECKING:
    from distributor.control.events import SessionSettings
    from distributor.control.messages import Pong

NO_PROGRESS = -1


class Deadline:
    """Until when something is waited for.

    Who looks late, on a busy machine, may not have read yet what came in time: it is given up at
    the second look, as much later as the first one was late. Who looks in time gives up at once.

    Args:
        due_ms: Until when.
    """

    def __init__(self, due_ms: int) -> None:
        self.due_ms = due_ms
        """When to look."""
        self._looked = False

    def is_over(self, now_ms: int) -> bool:
        """Look whether it is to be given up."""
        late_ms = now_ms - self.due_ms
        if late_ms < 0:
            return False
        if late_ms == 0 or self._looked:
            return True
        self._looked, self.due_ms = True, now_ms + late_ms
        return False


class Liveness:
    """What a controller knows of that in one session.

    Args:
        settings: Times.
        now_ms: When the session begins.
    """

    def __init__(self, settings: SessionSettings, now_ms: int) -> None:
        self._settings = settings
        self._asked = 0
        self._asked_ms = now_ms
        self._answered = True
        self._silence = Deadline(now_ms + settings.silence_ms)
        """Until when the ping that is under way may be answered."""
        self._ping_ms = now_ms
        self._progress = NO_PROGRESS
        self._moved_ms = now_ms
        self._late_ms = 0
        """The longest that an answer has taken since then, on a quiet machine next to nothing."""
        self._stuck = False

    @property
    def due_ms(self) -> int:
        """When to look next."""
        if self._answered:
            return self._ping_ms
        return self._silence.due_ms

    def ping(self, now_ms: int) -> Ping | None:
        """Return what to ask now, if anything; one ping is under way at a time."""
        if not self._answered or now_ms < self._ping_ms:
            return None
        self._asked, self._asked_ms, self._answered = self._asked + 1, now_ms, False
        self._silence = Deadline(now_ms + self._settings.silence_ms)
        self._ping_ms = now_ms + self._settings.ping_ms
        return Ping(self._asked)

    def objection(self, pong: Pong) -> str | None:
        """Return why an answer may not come now, for people; None if it may."""
        if self._answered or pong.number != self._asked:
            return f"ping {pong.number} is not under way"
        return None if pong.progress >= self._progress else "progress goes back"

    def take(self, pong: Pong, now_ms: int) -> None:
        """Take in an answer to which there is no objection."""
        self._answered = True
        if pong.progress > self._progress:
            self._progress, self._moved_ms, self._late_ms = pong.progress, now_ms, 0
        self._late_ms = max(self._late_ms, now_ms - self._asked_ms)
        # What an answer shows is how it was after the question, at any time until it is read: on a
        # busy machine both may lie long before now. There a flow's thread waits for a core, too,
        # as long as the process that answers.
        patience_ms = self._settings.stall_ms + self._late_ms
        self._stuck = self._asked_ms >= self._moved_ms + patience_ms

    def end(self, now_ms: int) -> SessionEnd | None:
        """Return why the session is over, if it is."""
        if not self._answered and self._silence.is_over(now_ms):
            return SessionEnd.SILENT
        return SessionEnd.STALLED if self._stuck else None
