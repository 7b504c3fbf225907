"""What the machines of controller and replica are told, and what they ask for.

A stream carries one session: commands one way, responses the other, each in order. A machine knows
it by a number that does not come again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from dafka.model import Value
from dafka.protocol.events import Woke

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.control.frontiers import Frontier
    from distributor.control.messages import (
        Command,
        Flow,
        FlowStatus,
        PeekAnswer,
        Response,
        StateCommand,
    )


class SessionSettings(Value, frozen=True):
    """Times that both sides keep.

    Attributes:
        ping_ms: How often a controller asks whether a replica is there.
        silence_ms: Who has not been heard for so long is gone.
        stall_ms: A replica whose flows have not turned when they are asked for so long after they
            did is stuck: so it is seen by the third ping.
        retry_ms_max: How long a controller waits at most before it connects again.
        waiting_max: Messages that may wait for a peer that does not read, besides those that a
            new session would bring anyway.
    """

    ping_ms: int = 1_000
    silence_ms: int = 3_000
    stall_ms: int = 2_500
    retry_ms_max: int = 1_000
    waiting_max: int = 10_000


class SessionEnd(Enum):
    """Why a session is over."""

    CLOSED = "closed"
    """The connection is gone, or never came."""
    SILENT = "silent"
    """The other side was not heard in time."""
    STALLED = "stalled"
    """The replica answers, but its flows stand still."""
    BEHIND = "behind"
    """More waits for the other side than a new session would bring."""
    VIOLATION = "violation"
    """The other side has broken the protocol."""
    WRONG_REPLICA = "wrong replica"
    """Somebody else answers at that address."""
    STALE = "stale"
    """There is a controller of a later epoch."""
    VERSION = "version"
    """There is no version that both speak."""
    SUPERSEDED = "superseded"
    """The replica has begun another session."""
    INCOMPATIBLE = "incompatible"
    """The process is for another instance, and ends."""


class StreamOpened(Value, frozen=True):
    """Event of a replica: somebody has connected; how many may is for whoever listens to say."""

    stream: int


class CommandCame(Value, frozen=True):
    """Event of a replica: a controller has sent something."""

    stream: int
    command: Command


class Writable(Value, frozen=True):
    """Event: what was sent last is on its way, and a stream takes more."""

    stream: int


class StreamEnded(Value, frozen=True):
    """Event: a stream is over, and nothing more comes from it.

    Attributes:
        stream: Which.
        why: What the other side has said; `CLOSED` if nothing.
        epoch: The highest that the replica knows, if it is `STALE`.
    """

    stream: int
    why: SessionEnd = SessionEnd.CLOSED
    epoch: int = 0


class FlowMoved(Value, frozen=True):
    """Event of a replica: a run has come further, in the partitions that are named.

    The three are those of `Frontiers`.
    """

    run: int
    input: Frontier
    write: Frontier
    output: Frontier


class FlowChanged(Value, frozen=True):
    """Event of a replica: a run does something else; see `FlowState`."""

    run: int
    status: FlowStatus
    epoch: int
    reason: str = ""


class FlowStopped(Value, frozen=True):
    """Event of a replica, answers `StopFlow`: nothing of the run happens any more."""

    run: int


class FlowsTurned(Value, frozen=True):
    """Event of a replica: the loops of all flows have turned since this was said last."""


ReplicaEvent = (
    StreamOpened
    | CommandCame
    | Writable
    | StreamEnded
    | FlowMoved
    | FlowChanged
    | FlowStopped
    | FlowsTurned
    | Woke
)


class FlowTerms(Value, frozen=True):
    """What a flow may do; a replica's flows are always under terms, and told of new ones.

    Attributes:
        start: Nobody needs from it what is before.
        scheduled: Whether it runs.
        epoch: Under which it may write; 0: it may not.
    """

    start: Frontier
    scheduled: bool = False
    epoch: int = 0


class StartFlow(Value, frozen=True):
    """Effect of a replica: begin to run a flow.

    Attributes:
        run: Names this run; a flow that is begun anew gets another one.
        flow: What it is.
        terms: What it may do.
    """

    run: int
    flow: Flow
    terms: FlowTerms


class SteerFlow(Value, frozen=True):
    """Effect of a replica: a run has new terms, and goes on; it answers by `FlowChanged`."""

    run: int
    terms: FlowTerms


class StopFlow(Value, frozen=True):
    """Effect of a replica: end a run; answered by `FlowStopped` after its last effect."""

    run: int


class Configure(Value, frozen=True):
    """Effect of a replica: these are the settings of all flows, and no others."""

    values: Mapping[str, int]


class SendResponses(Value, frozen=True):
    """Effect of a replica: send these; nothing more is sent before `Writable`."""

    stream: int
    responses: tuple[Response, ...]


class EndStream(Value, frozen=True):
    """Effect: end a stream, and tell the other side why; nothing more comes from it.

    Attributes:
        stream: Which.
        why: For the other side.
        epoch: The highest that this replica knows; 0 of a controller.
        detail: What was wrong, for people.
    """

    stream: int
    why: SessionEnd
    epoch: int = 0
    detail: str = ""


class EndProcess(Value, frozen=True):
    """Effect of a replica: end; whoever supervises it begins it anew, with nothing."""


FlowEffect = StartFlow | SteerFlow | StopFlow | Configure
ReplicaEffect = FlowEffect | SendResponses | EndStream | EndProcess


class Want(Value, frozen=True):
    """Event of a controller: this is wanted of the replica, whether it is connected or not.

    It connects once it is told `InitializationComplete`: less than the whole would drop flows.
    """

    command: StateCommand


class StreamReady(Value, frozen=True):
    """Event of a controller, answers `OpenStream`: there is a stream."""

    stream: int


class ResponseCame(Value, frozen=True):
    """Event of a controller: the replica has sent something."""

    stream: int
    response: Response


ControllerEvent = Want | StreamReady | ResponseCame | Writable | StreamEnded | Woke


class OpenStream(Value, frozen=True):
    """Effect of a controller: connect; answered by `StreamReady` or `StreamEnded`."""

    stream: int


class SendCommands(Value, frozen=True):
    """Effect of a controller: send these; nothing more is sent before `Writable`."""

    stream: int
    commands: tuple[Command, ...]


class Superseded(Value, frozen=True):
    """Effect of a controller: one of a later epoch is in charge; this one never is again."""

    epoch: int


class PeekAnswered(Value, frozen=True):
    """Effect of a controller: the one answer to a peek, for whoever asked."""

    peek: int
    answer: PeekAnswer


ControllerEffect = OpenStream | SendCommands | EndStream | Superseded | PeekAnswered
