"""A thread that waits, in a world where nothing waits.

Services that block (a registry at work is one) run as they are: in a thread of their own, which
runs while the world stands still, and stands still while the world runs. So one thing happens at a
time, and the same seed gives the same run.
"""

from __future__ import annotations

from threading import Semaphore, Thread
from typing import TYPE_CHECKING

from dafka.node.loop import NodeFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.testing.world import World


class _KilledError(BaseException):
    """Its process is gone: raised where it waits, and caught by nobody on the way out."""


class SimThread:
    """One thread of a simulated process. `kill` it in the end: it does not end with its world.

    Args:
        world: Where it lives.
        name: Its process, for what it fails by.
        body: What it does.
    """

    def __init__(self, world: World, name: str, body: Callable[[], None]) -> None:
        self._world = world
        self._name = name
        self._body = body
        self._ours = Semaphore(0)
        self._worlds = Semaphore(0)
        self._pauses = 0
        """How often it has waited: whoever would end an earlier one comes too late."""
        self._ended = False
        self._killed = False
        self._error: Exception | None = None
        self._thread = Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Run until it waits for the first time."""
        self._thread.start()
        self._hand_over()

    def wake(self) -> None:
        """Let it look again for what it waits for, as soon as this event is over."""
        self._resume_after(0)

    def kill(self) -> None:
        """End it where it waits."""
        if not self._ended:
            self._killed = True
            self._ours.release()
            self._thread.join()

    def wait_for(self, condition: Callable[[], bool], timeout_ms: int | None = None) -> bool:
        """Wait, in the thread itself, until a condition holds that whoever makes it true tells of.

        Args:
            condition: Looked at whenever somebody calls `wake`.
            timeout_ms: For so long at most; None for ever.

        Returns:
            Whether it holds.
        """
        end_ms = None if timeout_ms is None else self._world.now_ms + timeout_ms
        while not condition():
            left_ms = None if end_ms is None else end_ms - self._world.now_ms
            if left_ms is not None and left_ms <= 0:
                return False
            self._pauses += 1
            if left_ms is not None:
                self._resume_after(left_ms)
            self._worlds.release()
            self._ours.acquire()
            if self._killed:
                raise _KilledError
        return True

    def _resume_after(self, delay_ms: int) -> None:
        pause = self._pauses

        def resume() -> None:
            if pause == self._pauses and not self._ended and not self._killed:
                self._ours.release()
                self._hand_over()

        self._world.after(delay_ms, resume)

    def _hand_over(self) -> None:
        """Let it run until it waits again, or has ended."""
        self._worlds.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise NodeFailedError(f"{self._name} has failed: {error!r}") from error

    def _main(self) -> None:
        try:
            self._body()
        except _KilledError:
            pass
        except Exception as error:  # noqa: BLE001 - raised where the world runs
            self._error = error
        finally:
            self._ended = True
            self._worlds.release()
