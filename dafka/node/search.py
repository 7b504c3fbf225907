"""Whether a producer or consumer has found its cluster; who waits is told that it has not."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, TypeVar

from dafka.errors import ConnectionWarning, MisuseError, UnreachableError
from dafka.process.clock import CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.cluster import Cluster
    from dafka.process.clock import Clock

T = TypeVar("T")

LOOK_S = 0.25
"""How often who waits looks, until the cluster is found."""

UNHEARD_S = 2.0
"""After so long a node says which towers it does not hear; so does who waits."""

ALONE_S = 5.0
"""After so long it is said that there is nobody else: nodes say twice that they are there."""


class Search:
    """A way into a cluster, from the start until another node has been found there.

    Args:
        cluster: Which.
        towers_away: Says which towers are not heard, once that is known.
        others: Says how many other nodes have been found.
        connect_timeout: Seconds from now on after which waiting for it is an error; None is never.
        clock: What time it is.

    Raises:
        MisuseError: The time is no time.
    """

    def __init__(
        self,
        cluster: Cluster,
        towers_away: Callable[[], frozenset[str]],
        others: Callable[[], int],
        connect_timeout: float | None,
        clock: Clock = CLOCK,
    ) -> None:
        self.cluster = cluster
        self._towers_away = towers_away
        self._others = others
        self._timeout_s = checked_connect_timeout(connect_timeout)
        self._seconds = clock.seconds
        self._began_s = clock.seconds()
        self._warned = False
        self.found = False
        """Whether another node has been found; nothing is said after that."""

    def wait(self, waited: Callable[[float], T], timeout: float) -> T:
        """Wait for something, and say on the way that the cluster is not found.

        Args:
            waited: Waits for so many seconds; what it returns is true once it need not wait any
                more.
            timeout: Seconds, infinity for as long as it takes.

        Returns:
            What has been returned last.

        Raises:
            UnreachableError: The cluster is not found in time.
        """
        end_s = self._seconds() + timeout
        while not self.found:
            result = waited(min(LOOK_S, timeout))
            if result:
                return result
            self.check()
            timeout = end_s - self._seconds()
            if timeout <= 0:
                return result
        return waited(timeout)

    def check(self) -> None:
        """Say that the cluster is not found, if it is time to say so.

        Raises:
            UnreachableError: It is not found in time.
        """
        if self.found or self._others() > 0:
            self.found = True
            return
        passed_s = self._seconds() - self._began_s
        if self._timeout_s is not None and passed_s >= self._timeout_s:
            raise UnreachableError(self._complaint(f"within {self._timeout_s:g} s"))
        unheard = self._unheard()
        if not self._warned and passed_s >= (UNHEARD_S if unheard else ALONE_S):
            self._warned = True
            end = "" if self._timeout_s is None else f", {self._timeout_s:g} s in all"
            text = self._complaint(f"for {passed_s:.0f} s, it is tried on{end}")
            warnings.warn(text, ConnectionWarning, stacklevel=callers_level())

    def check_towers(self) -> None:
        """Say that no tower is heard, if so: other nodes may be long in coming.

        Raises:
            UnreachableError: No tower of the cluster is heard.
        """
        if self._unheard():
            passed_s = self._seconds() - self._began_s
            raise UnreachableError(self._complaint(f"within {passed_s:.0f} s"))

    def state(self, *, closed: bool, failed: bool) -> str:
        """In what state whoever uses it is, in a word or two."""
        if failed or closed:
            return "failed" if failed else "closed"
        return "connected" if self.found or self._others() > 0 else "not connected"

    def _unheard(self) -> bool:
        return self._towers_away() >= {*self.cluster.towers}

    def _complaint(self, since: str) -> str:
        name = f"cluster {self.cluster.name!r}" if self.cluster.name else "the cluster"
        towers = " and at ".join(self.cluster.towers)
        if self._unheard():
            return (
                f"cannot reach {name} {since}: nothing answers of the tower at {towers}; is it "
                "started, and are endpoint, wire and keys right?"
            )
        return (
            f"cannot reach {name} {since}: no other node is found through the tower at {towers}; "
            "is a store started there?"
        )


def checked_connect_timeout(timeout: float | None) -> float | None:
    """Return it, if it is a time or None.

    Raises:
        MisuseError: It is none.
    """
    if timeout is not None and not timeout > 0:
        raise MisuseError(f"connect_timeout must be more than 0 seconds, or None: {timeout}")
    return timeout


def callers_level() -> int:
    """The stack level, as `warnings.warn` counts it, of whoever called this package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 (the documented way, before Python 3.12)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dafka."):
        level, frame = level + 1, frame.f_back
    return level
