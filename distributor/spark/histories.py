"""Do both ends of a link mean the same records? Looked at by the driver, as the native link does.

What is compared, when and how much at a time `distributor.verify.divergence` says; digests travel,
records do not. Executors copy what the driver has not found to differ.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.plural import counted
from distributor.link.events import HeadsRead
from distributor.link.holdings import BothEnds
from distributor.link.node import carried_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from concurrent.futures import Future

    from dafka.model import Partition
    from topology import Link, Topology


class Histories:
    """What both ends of one link have under the same names. Stores are asked in a thread.

    Args:
        topology: Where both clusters are declared.
        link: Which arrow of the plan.
        target: Which of its targets.
    """

    def __init__(self, topology: Topology, link: Link, target: str) -> None:
        ends = topology.cluster(link.source), topology.cluster(target)
        self._ends = BothEnds(*ends, carried_by(topology, link))
        self._names = f"{link.source} and {target}"
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dafka-histories")
        self._looking: Future[Mapping[Partition, int] | None] | None = None

    def settled(self) -> Mapping[Partition, int]:
        """Wait until every partition that both ends have was looked at once.

        Returns:
            Partitions of which the two hold other records under the same name, each with the first
            sequence that is known to differ.

        Raises:
            QueryError: One of them does not show what it holds.
        """
        self._looking = None
        return self._thread.submit(self._settled).result()

    def looked(self) -> Mapping[Partition, int] | None:
        """Begin to look once more, at some of what came since, or return what that has found.

        Returns:
            The same as above; None if that is not known yet, or the target does not answer.
        """
        if self._looking is None:
            self._looking = self._thread.submit(self._looked)
            return None
        if not self._looking.done():
            return None
        found, self._looking = self._looking.result(), None
        return found

    def close(self) -> None:
        """Release the connections, once nobody is asked any more."""
        self._thread.submit(self._ends.close)
        self._thread.shutdown(wait=False)

    def _settled(self) -> Mapping[Partition, int]:
        left: Set[Partition] | None = None
        while True:
            heads = self._ends.survey()
            if not isinstance(heads, HeadsRead):
                raise QueryError(f"cannot compare {self._names}: no store of the target answers")
            before, left = left, heads.waiting & heads.source.keys()
            if not left:
                return heads.diverged
            if left == before:
                topic, address = min(left)
                raise QueryError(
                    f"cannot compare {self._names}: stores do not show "
                    f"{counted(len(left), 'partition')}, such as {topic} {address}; the keys of a "
                    "link need to read its topics"
                )

    def _looked(self) -> Mapping[Partition, int] | None:
        heads = self._ends.survey()
        return heads.diverged if isinstance(heads, HeadsRead) else None
