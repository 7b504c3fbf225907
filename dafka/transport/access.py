"""Who may do what in a cluster: keys, and the topics each may read and write.

A key's holder proves it when connecting (CURVE); what is decided here is what he may do then. All
are rules over prefixes of topics, because that is what a subscription is. The cluster's own key,
held by its towers and stores, may do everything.

| what | needs |
|---|---|
| subscribe to RECORD, RECORDS, HEAD of a prefix | read, for every topic that has the prefix |
| subscribe to what is sent to a requester | to be it: its address begins with the fingerprint |
| FETCH, GET-HEADS, CONSUMER-HELLO, questions at the query port | read |
| RECORD, RECORDS, HEAD and answers | write |
| ACK, STORE-HELLO | the cluster's key |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from dafka.wire.messages import Message

EVERYTHING = ("",)

_FINGERPRINT_DIGITS = 16
"""Half of an address; the other half stays random."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a key may do: prefixes of the topics it may read and write.

    Attributes:
        read: The empty prefix is every topic.
        write: Likewise.
        infrastructure: Whether it may acknowledge, as a store does.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    infrastructure: bool = False

    def may_read(self, prefix: str) -> bool:
        """Whether every topic that begins with `prefix` may be read."""
        return prefix.startswith(self.read)

    def may_write(self, topic: str) -> bool:
        """Whether `topic` may be written."""
        return topic.startswith(self.write)


ANYBODY = Rights(EVERYTHING, EVERYTHING, infrastructure=True)
"""In a cluster without keys everybody may do everything, and so may the cluster's own key."""


@dataclass(frozen=True, slots=True)
class Access:
    """The keys of one cluster.

    Attributes:
        cluster: Public key of its towers and stores.
        rights: Those of every other public key.
    """

    cluster: str
    rights: dict[str, Rights]

    @property
    def domain(self) -> str:
        """Names these keys and rights where one process knows several clusters."""
        return f"dafka-{fingerprint(repr((self.cluster, sorted(self.rights.items(), key=repr))))}"

    def of(self, key: str) -> Rights | None:
        """The rights of a key; None if it is not known."""
        if key == self.cluster:
            return ANYBODY
        return self.rights.get(key)

    def groups(self) -> list[Rights]:
        """Every combination of rights that some key has."""
        return list(dict.fromkeys([ANYBODY, *self.rights.values()]))


def fingerprint(key: str) -> str:
    """What the addresses of a key's nodes begin with."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return digest[:_FINGERPRINT_DIGITS].upper()


def rule(pattern: str) -> str:
    """The prefix that a rule stands for.

    Raises:
        MisuseError: It does not end in its only `*`.
    """
    if not pattern.endswith("*") or "*" in pattern[:-1]:
        raise MisuseError(f"rule {pattern!r} cannot be used: a prefix and `*`, as `orders*` or `*`")
    return pattern[:-1]


def may_subscribe(rights: Rights, key: str, message_id: MessageId, subject: str) -> bool:
    """Whether the holder of `key` may be sent messages of this id under this subject."""
    if rights.infrastructure:
        return True
    match message_id:
        case MessageId.RECORD | MessageId.RECORDS | MessageId.HEAD:
            return rights.may_read(subject)
        case (
            MessageId.DIRECT_RECORD
            | MessageId.DIRECT_RECORDS
            | MessageId.DIRECT_HEAD
            | MessageId.LOG_START
        ):
            return subject.startswith(fingerprint(key))
        case _:
            return True


def may_send(rights: Rights, message: Message) -> bool:
    """Whether a message may be taken from somebody with these rights."""
    if rights.infrastructure:
        return True
    match message:
        case messages.Fetch() | messages.GetHeads():
            return rights.may_read(message.topic)
        case messages.ConsumerHello():
            return all(rights.may_read(topic) for topic in message.topics)
        case messages.Ack() | messages.StoreHello():
            return False
        case messages.DirectHead() if message.store is not None:
            return False  # as good as an ACK
        case _:
            return rights.may_write(message.topic)
