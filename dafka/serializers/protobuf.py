"""Messages of Protobuf, of classes that protoc has made.

Between the schema's id and the message stands which message of its file it is: a count and that
many numbers, one for each message it is nested in, as zigzag integers; a zero alone is the first.
"""

from __future__ import annotations

import base64
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from dafka.errors import MisuseError
from dafka.serializers.framing import head_of, taken_apart, written_with
from dafka.serializers.registry import SchemaRegistry

M = TypeVar("M", bound=Message)

_KNOWN = "google/"
"""What begins so every registry knows."""


class ProtobufSerializer(Generic[M]):
    """Writes messages of a class. Called with one, it returns octets.

    Args:
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`; the file of the class is registered there,
            if it is not.
        message: The class.

    Raises:
        MisuseError: The registry refuses the file, or it imports others than Google's.
        QueryError: The registry does not answer.
    """

    def __init__(self, registry: str | SchemaRegistry, subject: str, message: type[M]) -> None:
        file = message.DESCRIPTOR.file
        others = [one.name for one in file.dependencies if not one.name.startswith(_KNOWN)]
        if others:
            raise MisuseError(
                f"{file.name} imports {', '.join(others)}, which is not served here: put its "
                "messages into one file"
            )
        text = base64.b64encode(file.serialized_pb).decode()
        found = written_with(SchemaRegistry.at(registry), subject, text, "PROTOBUF")
        self._message = message
        self._head = head_of(found.id) + _place(message.DESCRIPTOR)

    def __call__(self, value: M) -> bytes:
        """Return a message as octets.

        Raises:
            TypeError: It is of another class.
        """
        if not isinstance(value, self._message):
            raise TypeError(f"{type(value).__name__} is no {self._message.__name__}")
        return self._head + value.SerializeToString()


class ProtobufDeserializer(Generic[M]):
    """Reads messages of a class; Protobuf needs no registry for that.

    Args:
        message: The class.
    """

    def __init__(self, message: type[M]) -> None:
        self._message = message

    def __call__(self, octets: bytes) -> M:
        """Return the message that octets stand for.

        Raises:
            ValueError: They do not begin as such a value does.
            google.protobuf.message.DecodeError: What follows is no such message.
        """
        _, rest = taken_apart(octets)
        count, at = _varint(rest, 0)
        for _ in range(count >> 1):
            _, at = _varint(rest, at)
        return self._message.FromString(bytes(rest[at:]))


def _place(message: Any) -> bytes:  # noqa: ANN401 (a descriptor, of which there are two kinds)
    """Which message of its file it is, as octets."""
    numbers: list[int] = []
    while (outer := message.containing_type) is not None:
        numbers.append([*outer.nested_types].index(message))
        message = outer
    numbers.append([*message.file.message_types_by_name].index(message.name))
    if numbers == [0]:
        return b"\0"
    return b"".join(_zigzag(one) for one in (len(numbers), *reversed(numbers)))


def _zigzag(number: int) -> bytes:
    left, octets = number << 1, bytearray()
    while left > 127:
        octets.append(left & 127 | 128)
        left >>= 7
    octets.append(left)
    return bytes(octets)


def _varint(octets: memoryview, at: int) -> tuple[int, int]:
    """The integer at a place, and the place behind it."""
    value = shift = 0
    for place in range(at, min(at + 10, len(octets))):
        value |= (octets[place] & 127) << shift
        if octets[place] < 128:
            return value, place + 1
        shift += 7
    raise ValueError("does not say which message of its file it is")
