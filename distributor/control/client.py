"""Commanding one distributor, with types."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dafka.errors import QueryError, WireError
from dafka.limits import PARTITIONS_MAX
from dafka.model import Partition
from dafka.transport.request import QueryClient
from dafka.wire.primitives import octets_of, text
from distributor.control import protocol
from distributor.control.protocol import decode_answer, encode
from distributor.errors import CommandError, RefusedCommandError

if TYPE_CHECKING:
    from typing import Self

A = TypeVar("A")


class ControlClient:
    """One distributor's control socket. Every method raises `CommandError` if it is not obeyed.

    Args:
        endpoint: `tcp://host:port`.
        timeout_ms: For each command.
    """

    def __init__(self, endpoint: str, timeout_ms: int = 2_000) -> None:
        self._client = QueryClient(endpoint)
        self._timeout_ms = timeout_ms

    def links(self) -> tuple[protocol.LinkRow, ...]:
        """Return what its links do."""
        return self._ask(protocol.LinksCommand(), protocol.LinkRows).links

    def retarget(self, target: str) -> tuple[protocol.LinkRow, ...]:
        """Let the link that can serve `target` serve it, behind a barrier; begins at once."""
        return self._ask(protocol.RetargetCommand(target), protocol.LinkRows).links

    def pause(self) -> tuple[protocol.LinkRow, ...]:
        """Let its links send nothing more; they go on by themselves if this is not said again."""
        return self._ask(protocol.PauseCommand(), protocol.LinkRows).links

    def resume(self, topic: str) -> protocol.PassedOver:
        """Let its links go on with a topic behind what their source keeps no more."""
        return self._ask(protocol.ResumeCommand(octets_of(topic)), protocol.PassedOver)

    def lost(self, cluster: str) -> tuple[int, dict[Partition, int]]:
        """Let its links leave a cluster; returns its last known heads and their age, -1 if none."""
        # First all that is known: a link that has left a cluster has forgotten it.
        heads: dict[Partition, int] = {}
        page = self._recalled(cluster, None)
        while page is not None:
            known = len(heads)
            heads |= _heads(page)
            if not page.more or len(heads) > PARTITIONS_MAX:
                break
            if len(heads) == known:
                where = f"distributor at {self._client.endpoint}"
                raise CommandError(f"{where} answers with a page that leads nowhere")
            page = self._recalled(cluster, page.heads[-1][:2])
        answer = self._ask(protocol.LostCommand(cluster), protocol.Remembered)
        return answer.age_ms, _heads(answer) | heads

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recalled(
        self, cluster: str, after: tuple[bytes, bytes] | None
    ) -> protocol.Remembered | None:
        """A page of what a cluster was known to hold; None from a distributor of before pages."""
        try:
            return self._ask(protocol.RecallCommand(cluster, after), protocol.Remembered)
        except RefusedCommandError:
            return None

    def _ask(self, command: protocol.Command, expected: type[A]) -> A:
        where = f"distributor at {self._client.endpoint}"
        try:
            answer = decode_answer(self._client.ask(encode(command), self._timeout_ms))
        except QueryError as error:
            raise CommandError(f"{where}: {error}") from error
        except WireError as error:
            raise CommandError(f"{where} answers what this version cannot read") from error
        if isinstance(answer, protocol.CommandRefused):
            raise RefusedCommandError(f"{where} refuses: {answer.detail}")
        if not isinstance(answer, expected):
            raise CommandError(f"{where} answers with {type(answer).__name__}")
        return answer


def _heads(page: protocol.Remembered) -> dict[Partition, int]:
    return {Partition(text(topic), text(address)): head for topic, address, head in page.heads}
