"""Which member of a group takes which partition.

By rendezvous hashing (Thaler and Ravishankar, 1998): of all members that want the topic the one
whose hash with the partition is highest. So every member can work it out from the members alone,
without agreeing on which partitions there are, and they come and go all the time; a member that
comes or goes moves only its own share. The shares are equal only on average.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.groups.membership import Member
    from dafka.model import Partition


def owner(partition: Partition, members: Mapping[str, Member]) -> str | None:
    """Return the id of the member that takes `partition`; None if nobody wants its topic."""
    topic = octets_of(partition.topic)
    place = topic + b"\0" + octets_of(partition.address) + b"\0"
    candidates = (name for name, member in members.items() if topic in member.topics)
    return max(candidates, key=lambda name: (_weight(place + name.encode()), name), default=None)


def _weight(octets: bytes) -> bytes:
    return hashlib.blake2b(octets, digest_size=8).digest()
