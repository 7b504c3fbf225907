"""Where a link aims: an ordered list of targets, of which one at a time is served.

| state | left when |
|---|---|
| serving | the operator names another target, or the preferred one is well again: draining |
| draining | everything sent is on every cluster behind the target: serving the next one |
| paused | nobody has said again for a while that it shall be: serving |
| any | the target gives no sign of life for too long, or is declared lost: serving the next |

Leaving without the barrier loses nothing and repeats nothing in any log, as the next link asks the
new target what it has. What the barrier saves is carrying records twice: what the old target still
relays is not sent to the new one again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class AimSettings:
    """When to aim elsewhere.

    Attributes:
        failover_after_ms: Silence of all stores of the target after which it is left.
        failback: Whether to return to the preferred target once it has been well for as long.
        drain_ms_max: A barrier that is not met within this is given up, and nothing changes.
    """

    failover_after_ms: int = 30_000
    failback: bool = False
    drain_ms_max: int = 60_000


@dataclass(frozen=True, slots=True)
class Probed:
    """Event: the stores of a target gave a sign of life, or none did."""

    target: str
    well: bool


@dataclass(frozen=True, slots=True)
class Retarget:
    """Event: the operator wants another target, one of the list."""

    target: str


@dataclass(frozen=True, slots=True)
class ClusterLost:
    """Event: the operator says that a cluster does not come back."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Drained:
    """Event: everything sent is on every cluster behind the target."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Event: send nothing more, and go on by yourself if this is not said again in time."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Effect: send nothing more, and watch for the barrier."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Effect: go on with the same target: the barrier was not met in time, or the pause is over."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Effect: go on with another target.

    Attributes:
        target: Which.
        planned: Whether behind a barrier.
    """

    target: str
    planned: bool


AimEvent = Probed | Retarget | ClusterLost | Drained | Pause
AimEffect = Drain | Resume | Switch


class Aim:
    """The choice among the targets of one link.

    Args:
        targets: The preferred one first; it is the first to be served.
        settings: See there.
        now_ms: When the link begins.
    """

    def __init__(self, targets: Sequence[str], settings: AimSettings, now_ms: int) -> None:
        self._targets = tuple(targets)
        self._settings = settings
        self.current = self._targets[0]
        self.next: str | None = None
        """Where it aims once the barrier is met; None while it does not drain."""
        self._drain_due_ms = 0
        self._paused_until_ms: int | None = None
        self._pinned = False
        """The operator has chosen: no return to the preferred target by itself."""
        self._alive_ms = now_ms
        """Last sign of life of the current target."""
        self._well_since_ms: dict[str, int] = {}
        """Targets whose last probe was answered, and since when that is so."""
        self._lost: set[str] = set()

    def handle(self, event: AimEvent, now_ms: int) -> list[AimEffect]:
        """Take one event in; see `dafka.protocol`."""
        match event:
            case Probed(target, True):
                self._well_since_ms.setdefault(target, now_ms)
                if target == self.current:
                    self._alive_ms = now_ms
            case Probed(target, _):
                self._well_since_ms.pop(target, None)
            case Retarget(target):
                return self._retarget(target, now_ms)
            case ClusterLost(cluster):
                self._lost.add(cluster)
            case Pause():
                return self._pause(now_ms)
            case Drained():
                if self.next is not None:
                    return [self._switch(self.next, now_ms, planned=True)]
        return self._look(now_ms)

    def check(self) -> None:
        """Assert that it aims at one of its targets."""
        assert self.current in self._targets
        assert self.next is None or self.next in self._targets
        assert self.next != self.current

    @property
    def silent(self) -> bool:
        """Whether the current target did not answer its last probe."""
        return self.current not in self._well_since_ms

    @property
    def paused(self) -> bool:
        """Whether it sends nothing because it was told so."""
        return self._paused_until_ms is not None

    @property
    def holding(self) -> bool:
        """Whether it sends nothing and watches for the barrier."""
        return self.paused or self.next is not None

    def _pause(self, now_ms: int) -> list[AimEffect]:
        holding, self.next = self.holding, None
        self._paused_until_ms = now_ms + self._settings.drain_ms_max
        return [] if holding else [Drain()]

    def _look(self, now_ms: int) -> list[AimEffect]:
        """See whether time has brought a reason to change."""
        if self._paused_until_ms is not None:
            if now_ms < self._paused_until_ms:
                return []
            self._paused_until_ms = None
            return [Resume()]
        silent_ms = now_ms - self._alive_ms
        if self.current in self._lost or silent_ms >= self._settings.failover_after_ms:
            return self._fail_over(now_ms)
        if self.next is not None:
            if now_ms < self._drain_due_ms:
                return []
            self.next = None
            return [Resume()]
        if self._settings.failback and not self._pinned:
            return self._fail_back(now_ms)
        return []

    def _fail_over(self, now_ms: int) -> list[AimEffect]:
        candidates = [name for name in self._targets if self._usable(name)]
        if self.next in candidates:
            candidates = [self.next]
        return [self._switch(candidates[0], now_ms, planned=False)] if candidates else []

    def _fail_back(self, now_ms: int) -> list[AimEffect]:
        preferred = self._targets[0]
        if not self._usable(preferred):
            return []
        if now_ms - self._well_since_ms[preferred] < self._settings.failover_after_ms:
            return []
        return self._drain(preferred, now_ms)

    def _usable(self, name: str) -> bool:
        return name != self.current and name not in self._lost and name in self._well_since_ms

    def _retarget(self, target: str, now_ms: int) -> list[AimEffect]:
        assert target in self._targets
        self._pinned = True
        self._lost.discard(target)
        holding, self.next, self._paused_until_ms = self.holding, None, None
        if target == self.current:
            return [Resume()] if holding else []
        effects = self._drain(target, now_ms)
        return [] if holding else effects

    def _drain(self, target: str, now_ms: int) -> list[AimEffect]:
        draining, self.next = self.next is not None, target
        self._drain_due_ms = now_ms + self._settings.drain_ms_max
        return [] if draining else [Drain()]

    def _switch(self, target: str, now_ms: int, *, planned: bool) -> Switch:
        self.current, self.next = target, None
        self._alive_ms = now_ms
        return Switch(target, planned)
