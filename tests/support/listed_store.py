"""A store that is asked what it has, without a socket."""

from __future__ import annotations

from dafka.storage.log import extent_of
from dafka.storage.memory import MemoryLog


class ListedStore:
    """Answers as a `StoreClient`; remembers which topics it was asked to list, None for all."""

    def __init__(self, *batches):
        self.log = MemoryLog("AB" * 16)
        self.log.append(batches)
        self.listed = []

    def changes(self, since, topic=None):
        if since is None:
            return {}, self.log.changes.now
        changed = self.log.changes.since(since)
        if changed is None:
            return None
        told = {one: self.kept(one) for one, _ in changed if topic in (None, one.topic)}
        return told, self.log.changes.now

    def ranges(self, topic=None):
        self.listed.append(topic)
        return {one: self.kept(one) for one in self.log.extents() if topic in (None, one.topic)}

    def kept(self, place):
        """What is kept of a partition; None if it is not listed."""
        return self.reach(place) if place in self.log.extents() else None

    def reach(self, place):
        """The same, also where nothing is left and it ends there."""
        extent = extent_of(self.log, place)
        return range(extent.start, extent.head + 1)
