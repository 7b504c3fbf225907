"""Where a link aims: an ordered list of targets, of which one at a time is served.

A planned switch waits for a barrier: everything sent is on every cluster behind the target. Where
the target gives no sign of life for too long, takes nothing of what there is for it, or is declared
lost, the next one is served at once.
Leaving without the barrier loses nothing and repeats nothing in any log, as the next link asks the
new target what it has. What the barrier saves is carrying records twice: what the old target still
relays is not sent to the new one again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from dafka.model import Value
from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Sequence


class TargetState(Enum):
    """What a link does with its target, by the names that operators are shown."""

    SERVING = "serving"
    DRAINING = "draining"
    """Sends nothing more and waits for the barrier, to serve another target behind it."""
    PAUSED = "paused"
    """Sends nothing more, because the operator says so."""
    DRAINED = "drained"
    """The same, and the barrier is met."""


TARGET_STATES = {
    # Another target is named, or the preferred one is well again; it is paused.
    TargetState.SERVING: {TargetState.DRAINING, TargetState.PAUSED},
    # The barrier is met, was waited for in vain, or the target is silent; it is paused.
    TargetState.DRAINING: {TargetState.SERVING, TargetState.PAUSED},
    # Nobody has said for a while that it shall be; a target is named; the barrier is met.
    TargetState.PAUSED: {TargetState.SERVING, TargetState.DRAINING, TargetState.DRAINED},
    TargetState.DRAINED: {TargetState.SERVING, TargetState.DRAINING},
}


class TargetSettings(Value, frozen=True, kw_only=True):
    """When to aim elsewhere.

    Attributes:
        failover_after_ms: Silence of all stores of the target after which it is left; and how long
            it may take nothing of what there is for it. Half of it where their processes are gone,
            and while the link itself has just begun.
        failback: Whether to return to the preferred target once it has been well for as long.
        drain_ms_max: A barrier that is not met within this is given up, and nothing changes.
    """

    failover_after_ms: int = 5_000
    failback: bool = False
    drain_ms_max: int = 60_000


class Probed(Value, frozen=True):
    """Event: the stores of a target gave a sign of life, or none did.

    Attributes:
        target: Which.
        well: Whether one did.
        gone: Whether none can: none of their processes is there.
    """

    target: str
    well: bool
    gone: bool = False


class Stuck(Value, frozen=True):
    """Event: for so long the target has taken none of what waits for it; 0 if it takes."""

    for_ms: int


class Starved(Value, frozen=True):
    """Event: for so long another target, well itself, has got nothing of what this one takes."""

    for_ms: int


class Retarget(Value, frozen=True):
    """Event: the operator wants another target, one of the list."""

    target: str


class ClusterLost(Value, frozen=True):
    """Event: the operator says that a cluster does not come back."""

    cluster: str


class Drained(Value, frozen=True):
    """Event: everything sent is on every cluster behind the target."""


class Pause(Value, frozen=True):
    """Event: send nothing more, and go on by yourself if this is not said again in time."""


class Drain(Value, frozen=True):
    """Effect: send nothing more, and watch for the barrier."""


class Resume(Value, frozen=True):
    """Effect: go on with the same target: the barrier was not met in time, or the pause is over."""


class Switch(Value, frozen=True):
    """Effect: go on with another target.

    Attributes:
        target: Which.
        planned: Whether behind a barrier.
    """

    target: str
    planned: bool


TargetEvent = Probed | Stuck | Starved | Retarget | ClusterLost | Drained | Pause | Woke
TargetEffect = Drain | Resume | Switch


REST = 8
"""A target that was left because it took nothing is not served by itself for so many times as long
as that was waited for, and twice as long each time: that its stores answer says nothing of it."""

REST_DOUBLINGS_MAX = 6


NEW = 2
"""A link is new for so many times as long as silence is waited for: it has sent little yet that
another target would be sent again, and has already been away while it was started."""


class TargetMachine:
    """The choice among the targets of one link.

    Args:
        targets: The preferred one first; it is the first to be served.
        settings: See there.
        now_ms: When the link begins.
    """

    def __init__(self, targets: Sequence[str], settings: TargetSettings, now_ms: int) -> None:
        self._targets = tuple(targets)
        self._settings = settings
        self._lifecycle = Lifecycle(TARGET_STATES)
        self.current = self._targets[0]
        self.next: str | None = None
        """Where it aims once the barrier is met; None while it does not drain."""
        self._hold_due_ms: int | None = None
        """When it goes on with the same target, unless it is told again; None while it serves."""
        self._pinned = False
        """The operator has chosen: no return to the preferred target by itself."""
        self._new_until_ms = now_ms + settings.failover_after_ms * NEW
        self._alive_ms = now_ms
        """Last sign of life of the current target."""
        self._gone = False
        """Whether none of its stores was there when it was looked at last."""
        self._well_since_ms: dict[str, int] = {}
        """Targets whose last probe was answered, and since when that is so."""
        self._lost: set[str] = set()
        self._stuck_ms = 0
        """For how long the current target has taken nothing."""
        self._starved_ms = 0
        """For how long another one has got nothing of what it takes."""
        self._starvations = 0, now_ms
        """How often a target was left for that, and until when none is."""
        self._rests: dict[str, tuple[int, int]] = {}
        """Targets that took nothing: how often, and until when they are left alone."""

    def handle(self, event: TargetEvent, now_ms: int) -> list[TargetEffect]:
        """Take one event in; see `Machine`."""
        match event:
            case Probed(target, well, gone):
                if target == self.current:
                    self._gone = gone
                    self._alive_ms = now_ms if well else self._alive_ms
                if well:
                    self._well_since_ms.setdefault(target, now_ms)
                else:
                    self._well_since_ms.pop(target, None)
            case Stuck() | Starved():
                self._suffered(event)
            case Retarget(target):
                return self._retarget(target, now_ms)
            case ClusterLost(cluster):
                self._lost.add(cluster)
            case Pause():
                return self._pause(now_ms)
            case Drained() if self.next is not None:
                return [self._switch(self.next, now_ms, planned=True)]
            case Drained() if self.paused:
                self._lifecycle.become(TargetState.DRAINED)
        return self._look(now_ms)

    def wakeup_ms(self) -> int | None:
        """When a barrier or a pause has lasted for too long; silence is told by `Probed`."""
        return self._hold_due_ms

    def patience_left_ms(self, now_ms: int) -> int:
        """How long until the target is left if it goes on like this; 0 or less: it is overdue."""
        silent_ms = now_ms - self._alive_ms
        left_ms = self._patience_ms(now_ms) - max(silent_ms, self._stuck_ms, self._starved_ms)
        return min(left_ms, self._gone_ms - silent_ms) if self._gone else left_ms

    def check(self) -> None:
        """Assert that it aims at one of its targets, and that its state says what it waits for."""
        assert self.current in self._targets
        assert self.next is None or self.next in self._targets
        assert self.next != self.current
        assert (self.next is not None) == (self.state is TargetState.DRAINING)
        assert (self._hold_due_ms is not None) == self.holding

    @property
    def state(self) -> TargetState:
        """What it does with its target."""
        return self._lifecycle.state

    @property
    def starved_until_ms(self) -> int:
        """Until when no target is left because another one gets nothing of what it takes."""
        return self._starvations[1]

    @property
    def silent(self) -> bool:
        """Whether the current target did not answer its last probe."""
        return self.current not in self._well_since_ms

    @property
    def paused(self) -> bool:
        """Whether it sends nothing because it was told so."""
        return self.state in (TargetState.PAUSED, TargetState.DRAINED)

    @property
    def holding(self) -> bool:
        """Whether it sends nothing."""
        return self.state is not TargetState.SERVING

    def _look(self, now_ms: int) -> list[TargetEffect]:
        """See whether time has brought a reason to change."""
        over = self._hold_due_ms is not None and now_ms >= self._hold_due_ms
        if self.paused:
            return [self._resume()] if over else []
        patience_ms = self._patience_ms(now_ms)
        silent_ms = now_ms - self._alive_ms
        gone = self._gone and silent_ms >= self._gone_ms
        if self.current in self._lost or gone or silent_ms >= patience_ms:
            # A target that rests may still take more than one that is dead.
            return self._fail_over(now_ms, resting=True)
        if self._stuck_ms >= patience_ms and (left := self._leave_stuck(now_ms)):
            return left
        if self._starved_ms >= patience_ms and (left := self._leave_starving(now_ms)):
            return left
        if over:
            return [self._resume()]
        if self.holding or self._pinned or not self._settings.failback:
            return []
        return self._fail_back(now_ms)

    @property
    def _gone_ms(self) -> int:
        return self._settings.failover_after_ms // 2

    def _patience_ms(self, now_ms: int) -> int:
        whole_ms = self._settings.failover_after_ms
        return whole_ms // 2 if now_ms < self._new_until_ms else whole_ms

    def _fail_over(self, now_ms: int, *, resting: bool) -> list[TargetEffect]:
        usable = [name for name in self._targets if self._usable(name)]
        candidates = [name for name in usable if not self._rests_now(name, now_ms)]
        if resting:
            candidates += usable
        if self.next in usable:
            candidates = [self.next]
        return [self._switch(candidates[0], now_ms, planned=False)] if candidates else []

    def _leave_stuck(self, now_ms: int) -> list[TargetEffect]:
        """Go where records are taken, if there is such a place; not in circles."""
        left = self.current
        effects = self._fail_over(now_ms, resting=False)
        if effects:
            times, _ = self._rests.get(left, (0, 0))
            self._rests[left] = times + 1, now_ms + self._rest_ms(times)
        return effects

    def _suffered(self, event: Stuck | Starved) -> None:
        if isinstance(event, Stuck):
            self._stuck_ms = event.for_ms
        else:
            self._starved_ms = event.for_ms

    def _leave_starving(self, now_ms: int) -> list[TargetEffect]:
        """Serve another one, as this one relays nothing; seldom, for that may be the other's fault.

        It does not rest: it takes what it is given.
        """
        times, until_ms = self._starvations
        effects = self._fail_over(now_ms, resting=False) if now_ms >= until_ms else []
        if effects:
            self._starvations = times + 1, now_ms + self._rest_ms(times)
        return effects

    def _rest_ms(self, times: int) -> int:
        return self._settings.failover_after_ms * REST << min(times, REST_DOUBLINGS_MAX)

    def _rests_now(self, name: str, now_ms: int) -> bool:
        _, until_ms = self._rests.get(name, (0, now_ms))
        return now_ms < until_ms

    def _fail_back(self, now_ms: int) -> list[TargetEffect]:
        preferred = self._targets[0]
        if not self._usable(preferred) or self._rests_now(preferred, now_ms):
            return []
        if now_ms < self._starvations[1]:
            return []  # it may relay nothing still
        if now_ms - self._well_since_ms[preferred] < self._settings.failover_after_ms:
            return []
        return self._hold(TargetState.DRAINING, preferred, now_ms)

    def _usable(self, name: str) -> bool:
        return name != self.current and name not in self._lost and name in self._well_since_ms

    def _retarget(self, target: str, now_ms: int) -> list[TargetEffect]:
        assert target in self._targets
        self._pinned = True
        self._lost.discard(target)
        self._rests.pop(target, None)
        if target == self.current:
            return [self._resume()] if self.holding else []
        return self._hold(TargetState.DRAINING, target, now_ms)

    def _pause(self, now_ms: int) -> list[TargetEffect]:
        drained = self.state is TargetState.DRAINED
        return self._hold(TargetState.DRAINED if drained else TargetState.PAUSED, None, now_ms)

    def _hold(self, state: TargetState, following: str | None, now_ms: int) -> list[TargetEffect]:
        """Send nothing more; what held before is held for the new reason, and needs no `Drain`."""
        held = self.holding
        self._lifecycle.become(state)
        self.next = following
        self._hold_due_ms = now_ms + self._settings.drain_ms_max
        return [] if held else [Drain()]

    def _switch(self, target: str, now_ms: int, *, planned: bool) -> Switch:
        self._serve(target)
        self._alive_ms, self._stuck_ms, self._starved_ms, self._gone = now_ms, 0, 0, False
        return Switch(target, planned)

    def _resume(self) -> Resume:
        self._serve(self.current)
        return Resume()

    def _serve(self, target: str) -> None:
        self._lifecycle.become(TargetState.SERVING)
        self.current, self.next, self._hold_due_ms = target, None, None
