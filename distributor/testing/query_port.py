"""A store's query port, without the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.query import messages
from dafka.query.service import answer
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from dafka.storage.log import RecordLog


class QueryPort:
    """What is asked of a log."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log

    def digest(
        self, partition: Partition, start: int, end: int, *, exact: bool
    ) -> messages.DigestResponse:
        """As a client asks for it."""
        topic, address = map(octets_of, partition)
        question = messages.DigestRequest(topic, address, start, end - start, exact)
        found = messages.decode_answer(answer(messages.encode(question), self._log))
        assert isinstance(found, messages.DigestResponse)
        return found

    def digests(self, spans: Mapping[Partition, range]) -> dict[Partition, tuple[int, int, bytes]]:
        """As a client asks for them."""
        question = messages.DigestsRequest(
            tuple(
                (octets_of(topic), octets_of(address), span.start, len(span))
                for (topic, address), span in spans.items()
            )
        )
        found = messages.decode_answer(answer(messages.encode(question), self._log))
        assert isinstance(found, messages.DigestsResponse)
        return dict(zip(spans, found.digests, strict=True))
