"""What a distributor is told and what it answers, as values and as bytes.

A frame is one version octet and one MessagePack array whose first element names the message, as on
a store's query port. Names of topics and producers are bytes, as on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, json, to_builtins
from msgspec.msgpack import Decoder, Encoder

from dafka.errors import WireError
from dafka.limits import ADDRESS_BYTES_MAX
from dafka.query.messages import decoded

if TYPE_CHECKING:
    from dafka.reasons import Reason

P = TypeVar("P")

VERSION = 1

ClusterText = Annotated[str, Meta(max_length=63)]
Name = Annotated[bytes, Meta(max_length=ADDRESS_BYTES_MAX)]


class LinksCommand(Struct, frozen=True, array_like=True, tag="links"):
    """What do your links do?"""


class RetargetCommand(Struct, frozen=True, array_like=True, tag="retarget"):
    """Serve this target, behind a barrier."""

    target: ClusterText


class PauseCommand(Struct, frozen=True, array_like=True, tag="pause"):
    """Send nothing more, unless this is not said again within a minute."""


class LostCommand(Struct, frozen=True, array_like=True, tag="lost"):
    """This cluster does not come back: aim at another at once, and tell what you knew of it."""

    cluster: ClusterText


class RecallCommand(Struct, frozen=True, array_like=True, tag="recall"):
    """What was this cluster last known to hold, in order, behind a partition?"""

    cluster: ClusterText
    after: tuple[Name, Name] | None = None


class ResumeCommand(Struct, frozen=True, array_like=True, tag="resume"):
    """Go on with the overtaken partitions of this topic, behind what the source keeps no more."""

    topic: Name


Command = (
    LinksCommand | RetargetCommand | PauseCommand | LostCommand | RecallCommand | ResumeCommand
)


STOPPED_MAX = 100
"""Partitions that a link names of those it does not copy; the others are counted."""


class StoppedRow(Struct, frozen=True, array_like=True):
    """One partition that a link does not copy.

    Attributes:
        topic: Of the partition.
        address: Of the partition.
        reason: `diverged`, `overtaken` or `refused`; see `distributor.link.events`.
        first: The first sequence that differs, that the source keeps no more, or that is refused.
        end: The sequence after the last one that is known to.
    """

    topic: Name
    address: Name
    reason: str
    first: int
    end: int


class LinkRow(Struct, frozen=True, array_like=True):
    """One link.

    Attributes:
        source: Cluster it copies from.
        level: Tree level it crosses.
        branch: Which child of the branch it leads into, counted from 0.
        target: Cluster it copies to.
        state: `serving`, `draining`, `paused`, `drained` when what it sent before the pause is on
            every cluster beyond, `silent` when the target gives no sign of life, `stuck` when it
            takes nothing of what there is for it, or `superseded` while another process that was
            started later writes the same, so that this one does not.
        next: Cluster it will copy to once what was sent is everywhere; empty if none.
        waits_for: What it waits for while it drains, or is stuck or superseded, for people.
        switches: How often the target was changed.
        stall_ms: How long copying stood still at the last change; -1 if it has not ended yet.
        diverged: Partitions it does not copy, as the target has other records of them.
        overtaken: Partitions it does not copy, as the source keeps no more what follows.
        shortened: Partitions it copied without their beginning, which the source kept no more.
        stopped: The first of those it does not copy.
        topics: What it carries, if not what is on all clusters.
        refused: Partitions it does not copy for the moment, as the target acknowledges nothing of
            them.
        left: Target that was left lately as another one got too little of what it took; empty if
            none was.
        starved: Which one that was.
        left_ms: How long ago.
    """

    source: ClusterText
    level: int
    branch: int
    target: ClusterText
    state: str
    next: str
    waits_for: str
    switches: int
    stall_ms: int
    diverged: int = 0
    overtaken: int = 0
    shortened: int = 0
    stopped: tuple[StoppedRow, ...] = ()
    topics: str = ""
    refused: int = 0
    left: ClusterText = ""
    starved: ClusterText = ""
    left_ms: int = 0


class LinkRows(Struct, frozen=True, array_like=True, tag="rows"):
    """Every link of the process; the answer to a question and to an accepted command."""

    links: tuple[LinkRow, ...]


class Remembered(Struct, frozen=True, array_like=True, tag="remembered"):
    """What a cluster was last known to hold, as much as fits into one answer.

    Attributes:
        age_ms: How long ago that was; -1 if nothing was ever known.
        heads: Topic, address, last sequence.
        more: Ask by another `RecallCommand` for what comes after the last of them; before it is
            declared lost, as its links forget it then.
    """

    age_ms: int
    heads: tuple[tuple[Name, Name, int], ...]
    more: bool = False


class PassedOver(Struct, frozen=True, array_like=True, tag="passed"):
    """What goes on behind its holes, the answer to `ResumeCommand`.

    Attributes:
        partitions: How many.
        records: How many records at least are passed over: those known to be gone.
    """

    partitions: int
    records: int


class CommandRefused(Struct, frozen=True, array_like=True, tag="refused"):
    """It cannot be done; why, for people."""

    detail: str


Answer = LinkRows | Remembered | PassedOver | CommandRefused

_PREAMBLE = bytes((VERSION,))
_REASONS: tuple[Reason, Reason, Reason] = ("control size", "control version", "control message")
_encoder = Encoder()
_commands: Decoder[Command] = Decoder(Command)
_answers: Decoder[Answer] = Decoder(Answer)


def encode(message: Command | Answer) -> bytes:
    """Return the frame of a message."""
    return _PREAMBLE + _encoder.encode(message)


def decode_command(frame: bytes) -> Command:
    """Read a command.

    Raises:
        WireError: It is not one; the reason is a short constant.
    """
    return decoded(_commands, frame, _PREAMBLE, _REASONS)


def decode_answer(frame: bytes) -> Answer:
    """Read an answer.

    Raises:
        WireError: It is not one; the reason is a short constant.
    """
    return decoded(_answers, frame, _PREAMBLE, _REASONS)


class OpenedRow(Struct, frozen=True):
    """A link of a replica, or a share of one, as its page tells it.

    Attributes:
        writes: Whether it may write.
        row: What it does.
        share: Which part of its partitions it has, from 0.
        shares: Of how many.
    """

    writes: bool
    row: LinkRow
    share: int = 0
    shares: int = 1


class OpenedFlowRow(Struct, frozen=True):
    """A flow of a replica that copies no records.

    Attributes:
        kind: What it copies: `offsets` or `schemas`.
        source: Cluster it copies from.
        level: Of its link, as the next two.
        branch: See there.
        topics: See there.
        writes: Whether it may write.
    """

    kind: str
    source: ClusterText
    level: int
    branch: int
    topics: str
    writes: bool


class OpenedPage(Struct, frozen=True):
    """What a replica tells of its flows.

    Attributes:
        links: Those of records.
        others: All others.
    """

    links: tuple[OpenedRow, ...]
    others: tuple[OpenedFlowRow, ...]


_pages: json.Decoder[OpenedPage] = json.Decoder(OpenedPage)


class RememberedPage(Struct, frozen=True):
    """What a replica tells of what a cluster was last known to hold, some partitions at a time.

    Attributes:
        age_ms: How long ago that was; -1 if nothing was ever known.
        heads: Topic, address, last sequence.
        more: Whether others follow: ask `from` behind these.
    """

    age_ms: int
    heads: tuple[tuple[Name, Name, int], ...]
    more: bool


_remembered: json.Decoder[RememberedPage] = json.Decoder(RememberedPage)


def decode_remembered(page: str) -> RememberedPage:
    """Read the page of a replica.

    Raises:
        WireError: It is not one.
    """
    return _decoded(_remembered, page)


def values_of(page: OpenedPage | RememberedPage) -> dict[str, object]:
    """What a page has: values that JSON knows."""
    values: dict[str, object] = to_builtins(page)
    return values


SUPERSEDED_STATE = "superseded"
"""The state of a link that another process writes; see `LinkRow`."""

CONTROLLER_PAGE = "/controller"
"""Where a controller tells what it knows."""

PAUSED_STATE = "paused"
"""There, of a flow that nobody writes as an operator wants nobody to."""


class _FlowTold(Struct, frozen=True):
    source: str
    level: int
    kind: str
    state: str


class _ControllerPage(Struct, frozen=True):
    in_charge: bool
    flows: tuple[_FlowTold, ...]


_controllers: json.Decoder[_ControllerPage] = json.Decoder(_ControllerPage)


def decode_paused(page: str) -> frozenset[int] | None:
    """Read from the page of a controller which levels operators have paused; None if it cannot say.

    Raises:
        WireError: It is not one.
    """
    told = _decoded(_controllers, page)
    if not told.in_charge:
        return None
    return frozenset(flow.level for flow in told.flows if flow.state == PAUSED_STATE)


def decode_opened(page: str) -> OpenedPage:
    """Read the page of a replica.

    Raises:
        WireError: It is not one.
    """
    return _decoded(_pages, page)


def _decoded(decoder: json.Decoder[P], page: str) -> P:
    try:
        return decoder.decode(page)
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise WireError("control message") from error
