"""From the topics that users see to the technical names of a cluster, and back.

A topic has one technical name on all clusters, since it names the same records there. Its subjects
are spelled by each cluster's own format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.errors import UnnamedError
from topology.formats import TOPIC, NameFormat, is_value, parse_format
from topology.model import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.model import Topology

TOPIC_BYTES_MAX = 249
"""Kafka's bound, and ours."""


class Names:
    """The names of one cluster.

    Args:
        topology: Whose formats.
        cluster: One of its clusters.

    Raises:
        UnnamedError: There is no such cluster.
    """

    def __init__(self, topology: Topology, cluster: str) -> None:
        try:
            declared = topology.cluster(cluster)
        except KeyError as error:
            known = ", ".join(one.name for one in topology.clusters)
            raise UnnamedError(f"there is no cluster {cluster!r}: choose from {known}") from error
        self._fields = topology.fields
        self._topics = parse_format(topology.topic_format)
        self._subjects = parse_format(declared.subject_format)

    def topic(self, seen: str, **values: str) -> str:
        """Return the technical name of a topic.

        Args:
            seen: The name that users see; one that begins with `_` stays as it is.
            values: Of the fields that have more than one.

        Raises:
            UnnamedError: A field has no value, one it cannot have, or is none; the name is too
                long.
        """
        if seen.startswith(INTERNAL):
            return seen
        for field, value in values.items():
            if field not in self._topics.fields or field == TOPIC:
                known = ", ".join(f"{{{one}}}" for one in self._topics.fields)
                raise UnnamedError(f"topic_format has no field {field!r} to give a value: {known}")
            if self._fields.get(field, value) != value:
                raise UnnamedError(f"field {{{field}}} is {self._fields[field]!r} in this topology")
        technical = _joined(self._topics, seen, {**values, **self._fields})
        size = len(technical.encode(errors="replace"))
        if not seen or size > TOPIC_BYTES_MAX:
            raise UnnamedError(f"topic {technical!r} takes {size} bytes: 1 to {TOPIC_BYTES_MAX}")
        return technical

    def seen(self, topic: str) -> str | None:
        """Return the name that users see; None if the topic is not one of this topology."""
        if topic.startswith(INTERNAL):
            return topic
        values = self._split(topic)
        return None if values is None else values[TOPIC]

    def subject(self, topic: str, part: str) -> str:
        """Return the subject of a topic's keys or values at this cluster.

        Args:
            topic: The technical name.
            part: `key` or `value`.

        Raises:
            UnnamedError: The topic is not one of this topology, or its name does not tell a field.
        """
        values = self._split(topic)
        if values is None and topic.startswith(INTERNAL):
            raise UnnamedError(f"topic {topic!r} belongs to the cluster itself: it has no subjects")
        if values is None:
            raise UnnamedError(f"topic {topic!r} is not spelled as topic_format says")
        return _joined(self._subjects, f"{values[TOPIC]}-{part}", {**values, **self._fields})

    def _split(self, topic: str) -> dict[str, str] | None:
        values = self._topics.split(topic)
        if values is None:
            return None
        ours = all(values.get(field, value) == value for field, value in self._fields.items())
        return values if ours else None


def _joined(form: NameFormat, topic: str, values: Mapping[str, str]) -> str:
    for field in form.fields:
        if field == TOPIC:
            continue
        if field not in values:
            raise UnnamedError(f"field {{{field}}} has no value: give one for topic {topic!r}")
        if not is_value(values[field]):
            raise UnnamedError(
                f"{values[field]!r} is no value of field {{{field}}}:"
                " letters, digits, '.' and '_', at most 63"
            )
    return form.join({**values, TOPIC: topic})
