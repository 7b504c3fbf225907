"""What the registry refuses, with the codes that Confluent's clients know."""

from __future__ import annotations

from dafka.errors import DafkaError


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
