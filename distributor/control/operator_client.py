"""What asks a controller, for commands: a call over gRPC, and others until one is in charge.

A controller that has lost its lease names its successor, or nobody for some seconds. So each of
these asks on within its time, and not only once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

import grpc

from dafka.errors import MisuseError, QueryError
from dafka.limits import OPERATOR_MESSAGE_BYTES_MAX
from distributor.control import operator_wire as wire
from distributor.control.aims import LinkTurn
from distributor.control.demands import LevelPause
from distributor.control.operator_wire import IN_CHARGE_KEY, RouteQuestion, WaitQuestion
from distributor.control.resuming import ResumeOrder
from distributor.errors import CommandError, RefusedCommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributor.control.certificates import Certificates
    from distributor.control.protocol import PassedOver
    from distributor.control.questions import AimedLinkRow, RouteRow, Waited

ANSWER_S = 5.0
"""So much longer than what is waited for an answer may take."""

AGAIN_S = 0.2
"""So long after an answer that nobody is in charge the next question is."""

_OPTIONS = [("grpc.max_receive_message_length", OPERATOR_MESSAGE_BYTES_MAX)]

_REFUSED = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.ABORTED,
)


class OperatorClient:
    """One controller, as an operator asks it.

    Args:
        place: Where it serves operators, `HOST:PORT`.
        certificates: For TLS; None for none.
    """

    def __init__(self, place: str, certificates: Certificates | None = None) -> None:
        self._certificates = certificates
        self._go_to(place)

    def wait(self, timeout_s: float) -> Waited:
        """Wait until what is published so far is at the targets, or time is up.

        Raises:
            QueryError: No answer.
            CommandError: There will be none; why.
        """

        def asked(left_s: float) -> bytes:
            question = wire.encode_wait(WaitQuestion(round(left_s * 1_000)))
            return self._asked(wire.WAIT, question, left_s + ANSWER_S)

        return wire.decode_waited(self._until(asked, timeout_s))

    def explain(self, what: str, sequence: int | None, timeout_s: float) -> list[RouteRow]:
        """What flows do with a topic, or a partition, or one of its records.

        Raises:
            QueryError: No answer.
            CommandError: There will be none; why.
        """
        question = wire.encode_route(RouteQuestion(what, sequence))
        return wire.decode_routes(self._ask(wire.EXPLAIN, question, timeout_s))

    def retarget(self, level: int, to: str, timeout_s: float) -> list[AimedLinkRow]:
        """Have links aim elsewhere, and return where they aim once that is kept.

        Args:
            level: Which they cross.
            to: The target; empty for that which the file prefers.
            timeout_s: How long that may take.

        Raises:
            MisuseError: No link can.
            QueryError: No answer.
            CommandError: It is not done, or that is not known; why.
        """
        asked = wire.encode_turn(LinkTurn(level, to))
        return wire.decode_aimed(self._ask(wire.RETARGET, asked, timeout_s, lost_too=True))

    def pause(self, level: int, *, paused: bool, timeout_s: float) -> list[AimedLinkRow]:
        """Have links send nothing, or go on; return where they aim once that is kept.

        Args:
            level: Which they cross.
            paused: Whether they are to send nothing.
            timeout_s: How long that may take.

        Raises:
            MisuseError: There is none.
            QueryError: No answer.
            CommandError: It is not done, or that is not known; why.
        """
        asked = wire.encode_pause(LevelPause(level, paused))
        return wire.decode_aimed(self._ask(wire.PAUSE, asked, timeout_s, lost_too=True))

    def resume(self, level: int, topic: str, timeout_s: float) -> PassedOver:
        """Have links go on behind what their source keeps no more; how much that passes over.

        Args:
            level: Which they cross.
            topic: Of which partitions are overtaken.
            timeout_s: How long that may take.

        Raises:
            MisuseError: None is.
            QueryError: No answer.
            CommandError: It is not done, or that is not known; why.
        """
        asked = wire.encode_resume(ResumeOrder(level, topic))
        return wire.decode_resumed(self._ask(wire.RESUME, asked, timeout_s))

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _go_to(self, place: str) -> None:
        self._place = place
        if self._certificates is None:
            self._channel = grpc.insecure_channel(place, _OPTIONS)
            return
        self._channel = grpc.secure_channel(place, self._certificates.of_client(), _OPTIONS)

    def _ask(
        self, method: str, octets: bytes, timeout_s: float, *, lost_too: bool = False
    ) -> bytes:
        return self._until(
            lambda left_s: self._asked(method, octets, left_s), timeout_s, lost_too=lost_too
        )

    def _until(
        self, ask: Callable[[float], bytes], timeout_s: float, *, lost_too: bool = False
    ) -> bytes:
        """Ask it, and whom it names, until one is in charge or time is up.

        Args:
            ask: Asks whoever it is now, within the seconds that it is given.
            timeout_s: How long that may take.
            lost_too: Whether to ask again also where it is not known whether it is done.
        """
        due_s = time.monotonic() + timeout_s
        home, left_s = self._place, timeout_s
        asked, first = {home}, True
        while True:
            try:
                return ask(left_s)
            except grpc.RpcError as error:
                named = str(dict(error.trailing_metadata() or ()).get(IN_CHARGE_KEY, ""))
                left_s = max(0.0, due_s - time.monotonic())
                vacant = self._vacant(error, home, lost_too=lost_too)
                # Whoever is named first is asked even if time is up by then.
                if not vacant or (left_s <= AGAIN_S and not (first and named)):
                    raise self._failure(error) from error
                first = False
            if not named or named in asked:
                named, asked = home, set()
                time.sleep(AGAIN_S)
                left_s -= AGAIN_S
            asked.add(named)
            if named != self._place:
                self.close()
                self._go_to(named)

    def _vacant(self, error: grpc.RpcError, home: str, *, lost_too: bool) -> bool:
        """Whether nobody may be in charge just now, so that another answer is to be expected."""
        match error.code():
            case grpc.StatusCode.FAILED_PRECONDITION:
                return True
            case grpc.StatusCode.UNAVAILABLE:
                # The one that was named has ended, and the stores have not noticed yet.
                return self._place != home
            case grpc.StatusCode.ABORTED:
                return lost_too
            case _:
                return False

    def _asked(self, method: str, octets: bytes, timeout_s: float) -> bytes:
        call = self._channel.unary_unary(f"/{wire.SERVICE}/{method}")
        answer: bytes = call(octets, timeout=timeout_s)
        return answer

    def _failure(self, error: grpc.RpcError) -> Exception:
        said = f"{self._place}: {error.details()}"
        match error.code():
            case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.OUT_OF_RANGE:
                return MisuseError(said)
            case code if code in _REFUSED:
                return RefusedCommandError(said)
            case grpc.StatusCode.UNIMPLEMENTED:
                return CommandError(f"{self._place} does not answer as a controller")
            case _:
                return QueryError(f"no answer from {said}")
