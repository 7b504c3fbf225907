"""Who may do what in a cluster: keys, and the topics each may read and write.

A key's holder proves it when connecting (CURVE); what is decided here is what he may do then. All
are rules over prefixes of topics, because that is what a subscription is. The cluster's own key,
held by its towers and stores, may do everything.

| what | needs |
|---|---|
| subscribe to RECORD, RECORDS, HEAD, STORED-RECORDS | read, for every topic of the prefix |
| subscribe to what is sent to a requester | to be it: its address begins with the fingerprint |
| FETCH, GET-HEADS, CONSUMER-HELLO, questions at the query port | read |
| the first three for another requester than its key's addresses | not to write, or to mirror |
| RECORD, RECORDS, SLOT-RECORDS, HEAD and a producer's answers, all of its key's addresses | write |
| the same under any address, and LOG-START | mirror |
| commits of a group, and to be its member | write of `__consumer_offsets`, and the group |
| subscribe to SLOT-RECORDS | the cluster's key |
| ACK, STORE-HELLO, STORED-RECORDS, DIRECT-HEAD of a store | the cluster's key |
| FETCH that counts as a store's | the cluster's key |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import MARK_CHARACTERS, mark_of, replace
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dafka.wire.messages import Message

EVERYTHING = ("",)


@dataclass(frozen=True, slots=True)
class Rights:
    """What a key may do: prefixes of the topics it may read, write and mirror.

    Attributes:
        read: The empty prefix is every topic.
        write: Likewise; under addresses that are the key's own.
        mirror: Likewise, under any address: a distributor publishes what others have produced.
        groups: Prefixes of the groups for which it may commit; None is all, if it may write
            commits at all.
        infrastructure: Whether it may acknowledge, as a store does.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    mirror: tuple[str, ...] = ()
    infrastructure: bool = False
    groups: tuple[str, ...] | None = None

    def may_read(self, prefix: str) -> bool:
        """Whether every topic that begins with `prefix` may be read."""
        return prefix.startswith(self.read)

    def may_write(self, topic: str) -> bool:
        """Whether `topic` may be written."""
        return topic.startswith(self.write)

    def may_mirror(self, topic: str) -> bool:
        """Whether `topic` may be written under any address."""
        return topic.startswith(self.mirror)

    def may_commit(self, group: str) -> bool:
        """Whether positions of a group may be committed, where commits may be written."""
        return self.groups is None or group.startswith(self.groups)


ANYBODY = Rights(EVERYTHING, EVERYTHING, EVERYTHING, infrastructure=True)
"""In a cluster without keys everybody may do everything, and so may the cluster's own key."""


@dataclass(frozen=True, slots=True)
class Sender:
    """What is to be known of whoever sends, to tell what may be taken from it.

    Attributes:
        rights: Those of its key.
        mark: What the addresses begin with that it may write under, and ask for. Empty where its
            rights alone tell, so that few who send need be told apart: who may only read can ask
            for another reader, who gets the answer.
    """

    rights: Rights
    mark: str = ""


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

    def is_of(self, key: str, address: str) -> bool:
        """Whether a node of this key may leave under an address.

        What a node calls itself is no more than that: links are known at their target by the
        address that they have at their source, and a spool may be of a former key.
        """
        return key == self.cluster or address.startswith(fingerprint(key))

    def commit_rule(self) -> Callable[[str, str], bool]:
        """Return whether who has an address may commit for a group.

        An address of no key that is known is another cluster's: its stores have seen to it, or it
        could not be copied here.
        """
        marks = {fingerprint(key): rights for key, rights in self.rights.items()}

        def may_commit(address: str, group: str) -> bool:
            rights = marks.get(mark_of(address))
            return rights is None or rights.may_commit(group)

        return may_commit

    def sender(self, key: str) -> Sender | None:
        """The holder of a key; None if it is not known."""
        rights = self.of(key)
        if rights is None:
            return None
        own = not all(map(rights.may_mirror, rights.write))
        return Sender(rights, fingerprint(key) if own else "")


def fingerprint(key: str) -> str:
    """What the addresses of a key's nodes begin with."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return digest[:MARK_CHARACTERS].upper()


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
        case MessageId.STORED_RECORDS:
            return rights.may_read(subject.partition("/")[2])
        case (
            MessageId.DIRECT_RECORD
            | MessageId.DIRECT_RECORDS
            | MessageId.DIRECT_HEAD
            | MessageId.LOG_START
        ):
            return subject.startswith(fingerprint(key))
        case MessageId.SLOT_RECORDS:
            return False  # a slot has records of all topics
        case _:
            return True


def may_send(sender: Sender, message: Message) -> bool:
    """Whether a message may be taken from this sender."""
    rights = sender.rights
    if rights.infrastructure:
        return True
    match message:
        case messages.Fetch() | messages.GetHeads():
            return rights.may_read(message.topic) and message.requester.startswith(sender.mark)
        case messages.ConsumerHello():
            own = message.consumer.startswith(sender.mark)
            return own and all(rights.may_read(topic) for topic in message.topics)
        case messages.Ack() | messages.StoreHello() | messages.StoredRecords():
            return False
        case messages.DirectHead() if message.store is not None:
            return False  # as good as an ACK
        case messages.LogStart():
            return rights.may_mirror(message.topic)
        case _:
            own = message.address.startswith(sender.mark)
            return rights.may_mirror(message.topic) or (own and rights.may_write(message.topic))


def taken(sender: Sender, arrived: Iterable[Message]) -> list[Message]:
    """What may be taken of messages from this sender; a FETCH with whether a store may ask so."""
    if not sender.rights.infrastructure:
        return [message for message in arrived if may_send(sender, message)]
    return [
        replace(message, by_store=True) if isinstance(message, messages.Fetch) else message
        for message in arrived
    ]
