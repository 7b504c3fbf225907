"""What a consumer in a group is given, and whether it can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import MisuseError
from dafka.groups.commit import checked_group
from dafka.groups.membership import SESSION_MS_MAX, SESSION_MS_MIN
from dafka.limits import GROUP_TOPICS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Partition
    from dafka.transport.keys import Credentials


class GroupOptions(NamedTuple):
    """What a consumer in a group is given; see `dafka.node.consumer.Consumer`."""

    group: str
    stores: tuple[str, ...]
    auto_commit_ms: int | None
    session_timeout_ms: int
    max_hold_ms: int

    def checked(
        self, topics: Sequence[str], positions: Mapping[Partition, int] | None = None
    ) -> GroupOptions:
        """Return them if they can be used, for these topics and without positions.

        Raises:
            MisuseError: They cannot.
        """
        if positions:
            raise MisuseError("a group has positions of its own: use seek instead")
        checked_group(self.group)
        if not self.stores:
            raise MisuseError("a consumer in a group needs the query ports of the stores: stores")
        if len(set(self.stores)) < len(self.stores):
            raise MisuseError(f"a store is given twice: {', '.join(self.stores)}")
        if not SESSION_MS_MIN <= self.session_timeout_ms <= SESSION_MS_MAX:
            raise MisuseError(
                f"session_timeout_ms must be {SESSION_MS_MIN} to {SESSION_MS_MAX}: "
                f"{self.session_timeout_ms}"
            )
        if self.max_hold_ms < 1 or (self.auto_commit_ms is not None and self.auto_commit_ms < 1):
            raise MisuseError("max_hold_ms and auto_commit_ms must be positive")
        if len(topics) > GROUP_TOPICS_MAX:
            raise MisuseError(f"a member of a group takes at most {GROUP_TOPICS_MAX} topics")
        return self


class Access(NamedTuple):
    """How a node gets into its cluster; see `dafka.node.consumer.Consumer`."""

    credentials: Credentials | None
    insecure: bool
    wire: str | None
