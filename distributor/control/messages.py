"""What a controller and the replicas of its distributors say to each other, as values.

A controller sends commands, a replica responses; docs/control-protocol.md has the rules. Values
know nothing of how they travel. Flows and peeks have numbers that rise and never come again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from dafka.model import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.control.frontiers import Frontier
    from distributor.link.events import Hole
    from topology.plan import Link

VERSIONS = range(1, 2)
"""The versions of the protocol that this build speaks."""


class FlowKind(Enum):
    """What a flow copies."""

    RECORDS = "records"
    OFFSETS = "offsets"
    SCHEMAS = "schemas"


class Flow(Value, frozen=True):
    """The smallest piece of work that a replica is given.

    Attributes:
        link: Of the plan; what it carries, and where to.
        kind: What of it is copied.
        share: Which part of the ring of slots, counted from 0; see `dafka.model.PartitionShare`.
        shares: Of how many.
        passes: What its source keeps no more and an operator wants passed over.
    """

    link: Link
    kind: FlowKind
    share: int = 0
    shares: int = 1
    passes: tuple[Hole, ...] = ()


class Hello(Value, frozen=True):
    """Command: the first on every stream; who speaks, and to whom.

    Attributes:
        controller: Its member id in the group of controllers.
        epoch: The generation in which it is in charge.
        oldest: The oldest version that it speaks.
        newest: The newest one; it speaks all between.
        replica: Whom it believes to have reached.
    """

    controller: str
    epoch: int
    oldest: int
    newest: int
    replica: str


class CreateInstance(Value, frozen=True):
    """Command: what the whole process is for; it cannot become another one.

    Attributes:
        cluster: Whose distributors these are.
        number: The cluster's number, as envelopes bear it.
    """

    cluster: str
    number: int


class UpdateConfiguration(Value, frozen=True):
    """Command: settings for all flows, those that are there too, from now on.

    Attributes:
        values: By name; what is not named stays.
    """

    values: Mapping[str, int]


class CreateFlow(Value, frozen=True):
    """Command: have this flow; it is suspended, and writes nothing.

    Attributes:
        number: Names it from now on.
        flow: What it is.
        start: Nobody needs from it what is before.
    """

    number: int
    flow: Flow
    start: Frontier


class Schedule(Value, frozen=True):
    """Command: let a flow run."""

    flow: int


class AllowWrites(Value, frozen=True):
    """Command: a flow may write to its target.

    Attributes:
        flow: Which.
        epoch: Of its writers; above 0, and who has the highest one writes.
    """

    flow: int
    epoch: int


class AllowCompaction(Value, frozen=True):
    """Command: nobody needs from a flow what is before; it says nothing of what stores keep.

    Attributes:
        flow: Which.
        before: Where it is further than before; None: nobody needs anything, the flow is dropped.
    """

    flow: int
    before: Frontier | None


class Peek(Value, frozen=True):
    """Command: say how far the target is with a flow, once it is this far.

    Attributes:
        number: Names the question.
        flow: Which.
        at_least: What to wait for.
    """

    number: int
    flow: int
    at_least: Frontier


class CancelPeek(Value, frozen=True):
    """Command: the answer is not waited for any more."""

    peek: int


class InitializationComplete(Value, frozen=True):
    """Command: that was all that is wanted; what is not named is not."""


class Ping(Value, frozen=True):
    """Command: are you there? One is under way at a time."""

    number: int


class UnknownMessage(Value, frozen=True):
    """Command or response that this build does not understand; whoever gets it hangs up.

    Attributes:
        kind: What it is, as far as that is known, for people.
    """

    kind: str


StateCommand = (
    CreateInstance
    | UpdateConfiguration
    | CreateFlow
    | Schedule
    | AllowWrites
    | AllowCompaction
    | Peek
    | CancelPeek
    | InitializationComplete
)
"""What says which state is wanted, and is therefore kept in a history."""

Command = Hello | StateCommand | Ping | UnknownMessage


class HelloOk(Value, frozen=True):
    """Response to `Hello`: the session has begun.

    Attributes:
        version: The newest that both speak.
        replica: Who answers.
    """

    version: int
    replica: str


class Frontiers(Value, frozen=True):
    """Response: how far a flow is, as far as that is new in this session.

    Attributes:
        flow: Which.
        input: What is read, and decided on.
        write: What is at the target, whoever wrote it, or is not for it.
        output: From where this replica could go on at once; never ahead of `input`.
    """

    flow: int
    input: Frontier
    write: Frontier
    output: Frontier


class FlowStatus(Enum):
    """What a flow does."""

    SUSPENDED = "suspended"
    """It is not scheduled yet."""
    WARM = "warm"
    """It reads, and writes nothing."""
    WRITING = "writing"
    DRAINING = "draining"
    """It writes no more, but what it has written may still arrive."""
    FAILED = "failed"
    """It cannot run, and is tried again."""


class FlowState(Value, frozen=True):
    """Response: what a flow does; nothing that has to be right rests on it.

    Attributes:
        flow: Which.
        status: What it does.
        epoch: Under which it writes, or has written; 0 if it does not.
        reason: Why it has failed, for people.
    """

    flow: int
    status: FlowStatus
    epoch: int
    reason: str = ""


class FlowDropped(Value, frozen=True):
    """Response: nothing of a dropped flow happens any more; said once in a session."""

    flow: int


class Positions(Value, frozen=True):
    """Answer to a peek: how far the target is."""

    write: Frontier


class PeekError(Value, frozen=True):
    """Answer to a peek: there will be no other; why, for people."""

    detail: str


class Canceled(Value, frozen=True):
    """Answer to a peek: it was cancelled before."""


PeekAnswer = Positions | PeekError | Canceled


class PeekResponse(Value, frozen=True):
    """Response to `Peek`: exactly one for each."""

    peek: int
    answer: PeekAnswer


class Pong(Value, frozen=True):
    """Response to `Ping`.

    Attributes:
        number: Of the ping.
        progress: Grows as the loops of the flows turn: who answers pings may still be stuck.
    """

    number: int
    progress: int


Response = HelloOk | Frontiers | FlowState | FlowDropped | PeekResponse | Pong | UnknownMessage
