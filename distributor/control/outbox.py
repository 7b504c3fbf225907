"""What waits to be said to a controller: the last word on each thing, however slow it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from distributor.control.frontiers import joined
from distributor.control.messages import (
    FlowDropped,
    FlowState,
    Frontiers,
    HelloOk,
    PeekResponse,
    Pong,
    UnknownMessage,
)

if TYPE_CHECKING:
    from distributor.control.messages import Response


def _subject(response: Response) -> int:
    """What a response of its kind is about."""
    match response:
        case Frontiers() | FlowState() | FlowDropped():
            return response.flow
        case PeekResponse():
            return response.peek
        case HelloOk() | Pong() | UnknownMessage():
            return 0
        case _:
            assert_never(response)


class Outbox:
    """The responses of one session that are not sent yet."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[type[Response], int], Response] = {}
        self._writable = True

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, response: Response) -> None:
        """Say something; what was to be said of the same thing before needs not be."""
        key = type(response), _subject(response)
        before = self._waiting.get(key)
        if isinstance(response, Frontiers) and isinstance(before, Frontiers):
            response = Frontiers(
                response.flow,
                joined(before.input, response.input),
                joined(before.write, response.write),
                joined(before.output, response.output),
            )
        self._waiting[key] = response

    def leave_out(self, flow: int) -> None:
        """How far a flow is, and what it does, need not be said any more."""
        self._waiting.pop((Frontiers, flow), None)
        self._waiting.pop((FlowState, flow), None)

    def writable(self) -> None:
        """The stream takes more."""
        self._writable = True

    def take(self) -> tuple[Response, ...]:
        """Return what may be sent now, if anything."""
        if not self._writable or not self._waiting:
            return ()
        self._writable = False
        taken = (*self._waiting.values(),)
        self._waiting.clear()
        return taken
