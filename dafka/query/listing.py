"""What one store lists, asked for again and again: only what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from dafka.query.client import StoreClient
    from dafka.storage.log import Mark


class Listing:
    """What one store keeps of every partition of a topic, or of all.

    Args:
        topic: Which; None for all.
    """

    def __init__(self, topic: str | None = None) -> None:
        self._topic = topic
        self._until: Mark | None = None

    def read(self, store: StoreClient) -> tuple[Mapping[Partition, range | None], bool]:
        """Ask the store, always the same one.

        Returns:
            What is kept of what has changed since the last time, None of what is listed no more;
            and whether this is all there is instead, as at first and whenever the store was opened
            anew. May have other topics in it.

        Raises:
            QueryError: The store does not answer.
        """
        if self._until is not None:
            changed = self._changed(store, self._until)
            if changed is not None:
                ranges, self._until = changed
                return ranges, False
        # Before the list: what changes meanwhile is told again.
        beginning = self._changed(store, None)
        everything = store.ranges(self._topic)
        self._until = None if beginning is None else beginning[1]
        return everything, True

    def _changed(
        self, store: StoreClient, since: Mark | None
    ) -> tuple[Mapping[Partition, range | None], Mark] | None:
        """What has changed; None if the store cannot say, being of before that question."""
        try:
            return store.changes(since, self._topic)
        except RefusedError:
            return None
