"""Which topics match the patterns of groups' members, worked out for what has come since alone."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.topic_pattern import PATTERNS_KEPT, pattern_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.gateway.broker import Topic
    from dafka.gateway.topic_pattern import TopicPattern


class _Matched(NamedTuple):
    """What a pattern matches of some names."""

    names: frozenset[str]
    found: frozenset[str]


class MatchedTopics:
    """What patterns match, for as long as the same ones are asked for.

    Args:
        topics: All of them; the same value while they are the same.
        pattern_of: Makes a pattern.
    """

    def __init__(
        self,
        topics: Callable[[], Sequence[Topic]],
        pattern_of: Callable[[str], TopicPattern] = pattern_of,
    ) -> None:
        self._all, self._pattern_of = topics, pattern_of
        self._topics: Sequence[Topic] = ()
        self._names: frozenset[str] = frozenset()
        self._matched: OrderedDict[str, _Matched] = OrderedDict()

    def of(self, pattern: str) -> frozenset[str]:
        """Return the names that a pattern matches now.

        Raises:
            MisuseError: It is none.
        """
        topics = self._all()
        if topics is not self._topics:
            self._topics, self._names = topics, frozenset(topic.name for topic in topics)
        names = self._names
        before = self._matched.pop(pattern, _Matched(frozenset(), frozenset()))
        if before.names is not names:
            wanted = self._pattern_of(pattern)
            new = names - before.names
            found = (before.found & names) | {name for name in new if wanted.matches(name)}
            before = _Matched(names, found)
        self._matched[pattern] = before
        if len(self._matched) > PATTERNS_KEPT:
            self._matched.popitem(last=False)
        return before.found
