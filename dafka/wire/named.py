"""Topics that peers listen for by their names, not with all others."""

from __future__ import annotations

from dafka.limits import PARTITIONS_MAX


class NamedTopics:
    """As far as a publisher has seen subscriptions.

    None is forgotten: ZeroMQ does not say whether another peer is still listening when one leaves.
    Of more than can be remembered, all are thought to be listened for.
    """

    def __init__(self) -> None:
        self._topics: set[str] = set()

    def listened(self, topic: str) -> None:
        """A peer has subscribed to a topic, or to all with the empty one."""
        if topic and len(self._topics) < PARTITIONS_MAX:
            self._topics.add(topic)

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics or len(self._topics) == PARTITIONS_MAX
