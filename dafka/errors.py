"""Every error `dafka` raises, as one tree, split by whose fault it is.

What the registry refuses, with the codes that Confluent's clients know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.reasons import Reason


class DafkaError(Exception):
    """Base of every error raised by `dafka`.

    Attributes:
        retriable: Whether the same call may succeed later without a change by the caller.
    """

    retriable = False


class MisuseError(DafkaError):
    """The caller asked for something that cannot be done; nothing was changed."""


class MissingPackageError(MisuseError):
    """Something needs a package that is not installed here."""


class SerializationError(MisuseError):
    """A serializer has failed: what it was given was not sent."""


class WireError(DafkaError):
    """A peer sent something that is not a message. Never leaves the node: counted, dropped.

    Attributes:
        reason: The label of `dafka_dropped_total`.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"cannot decode message: {reason}")
        self.reason = reason


class RecordError(DafkaError):
    """A record or batch is damaged or breaks a limit.

    Attributes:
        reason: The label of `dafka_dropped_total`.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"cannot read record batch: {reason}")
        self.reason = reason


class RequestError(DafkaError):
    """A Kafka client sent what is no request, or none that is served. It is disconnected.

    Attributes:
        reason: A short constant.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"cannot read request of a Kafka client: {reason}")
        self.reason = reason


class CredentialsError(DafkaError):
    """Who logs in does not prove who it is, or a password is none.

    Attributes:
        reason: A short constant.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"credentials cannot be used: {reason}")
        self.reason = reason


class RebalancedError(DafkaError):
    """Partitions that a consumer had are another member's by now; their commits were not made.

    Attributes:
        partitions: Whose records, as far as they were not committed, others get again.
    """

    def __init__(self, message: str, partitions: Iterable[tuple[str, str]]) -> None:
        super().__init__(message)
        self.partitions = frozenset(partitions)


class CommitError(DafkaError):
    """A record of the topic `__consumer_offsets` is not a commit. Passed over, and counted.

    Attributes:
        reason: A short constant.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"cannot read commit: {reason}")
        self.reason = reason


class StorageError(DafkaError):
    """The disk refused, or what it holds is not ours to open."""


class RestartError(DafkaError):
    """What is on disk may be more than this process knows of, so it has to be started again."""


class ConnectionWarning(UserWarning):
    """Somebody waits for a cluster that has not been reached, or for a store that is silent."""


class UnreachableError(DafkaError):
    """None of a cluster's nodes is found: mostly as none of its towers is heard."""

    retriable = True


class QueryError(DafkaError):
    """A store's query port gave no answer, or refused the question."""

    retriable = True


class RefusedError(QueryError):
    """A store's query port understood the question and refused it, or did not understand it."""


class ShareError(RefusedError):
    """A store was asked for what others of its cluster keep; those have to be named, too."""


class BufferFullError(DafkaError):
    """The producer's buffer stayed full for `max_block_ms`: no store acknowledges.

    Attributes:
        sent: Of `send_many`, the index of the first value that was not sent.
    """

    retriable = True

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.sent = 0


class AddressInUseError(DafkaError):
    """Stores have records under a producer's address that it did not send: there is another one."""


class NotStoredError(DafkaError):
    """A producer was closed, or a flush timed out, before enough stores had the records.

    Attributes:
        unstored: How many records are not stored, by partition.
    """

    retriable = True

    def __init__(self, message: str, unstored: Iterable[tuple[tuple[str, str], int]]) -> None:
        super().__init__(message)
        self.unstored = dict(unstored)


class HoleError(NotStoredError):
    """A store waits in vain for records that the producer has no more: a store has lost its disk.

    What is unstored is kept, and stored once another store brings what lacks, or an operator lets
    the store go on without it.

    Attributes:
        partition: Topic and address.
        expected: The sequence that the store waits for.
        kept: The first one that the producer still has.
    """

    def __init__(self, partition: tuple[str, str], expected: int, kept: int, unstored: int) -> None:
        topic, address = partition
        super().__init__(
            f"a store waits for sequence {expected:,} of {topic!r} of address {address} and nobody "
            f"sends it; this producer has kept what follows {kept:,}. Start the store that has it, "
            f"or go on without: dafka holes --store ENDPOINT --skip {topic}",
            [(partition, unstored)],
        )
        self.partition = partition
        self.expected = expected
        self.kept = kept


class RegistryError(DafkaError):
    """A request that cannot be answered as it was meant.

    Attributes:
        code: Five digits of which the first three are the HTTP status, or just a status.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = code >= 50_000

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1_000 else self.code // 100


def no_subject(subject: str) -> RegistryError:
    """There is no such subject."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(40402, f"Version {version} not found.")


def no_schema(id_: int | None = None) -> RegistryError:
    """There is no such schema."""
    return RegistryError(40403, "Schema not found" if id_ is None else f"Schema {id_} not found")


def invalid_schema(reason: str) -> RegistryError:
    """The schema is none."""
    return RegistryError(42201, f"Invalid schema: {reason}")


def not_permitted(reason: str) -> RegistryError:
    """This registry, or this subject, may not be changed."""
    return RegistryError(42205, reason)
