"""Protobuf: whether one schema reads what another writes.

Source: Confluent's list of differences between schemas of Protobuf, and Protocol Buffers' own rules
for updating a message type. Where the second are stricter they hold, see docs/schemas.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from dafka.schemas.protobuf_compiler import known, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from dafka.schemas.protobuf_compiler import Uses

_OWN = ""
"""The name of the schema itself, which no import can have."""

_ENCODINGS = {
    "a whole number": ("BOOL", "ENUM", "INT32", "INT64", "UINT32", "UINT64"),
    "a zigzag number": ("SINT32", "SINT64"),
    "text or bytes": ("STRING", "BYTES"),
    "four bytes": ("FIXED32", "SFIXED32"),
    "eight bytes": ("FIXED64", "SFIXED64"),
    "a float": ("FLOAT",),
    "a double": ("DOUBLE",),
    "a message": ("MESSAGE",),
    "a group": ("GROUP",),
}
_ENCODING_OF = {
    getattr(FieldDescriptor, f"TYPE_{name}"): encoding
    for encoding, names in _ENCODINGS.items()
    for name in names
}
"""Fields whose types have one encoding may change from one to another."""


def obstacles(reader: tuple[str, Uses], writer: tuple[str, Uses]) -> Sequence[str]:
    """Why data written with one schema cannot be read with another; empty if it can.

    Args:
        reader: Its descriptor, and those of what it uses.
        writer: The same.
    """
    try:
        reads, writes = _file(*reader), _file(*writer)
    except (TypeError, ValueError, KeyError) as error:
        return [f"a descriptor cannot be read: {error}"]
    return list(_MessageComparison().gaps(reads, writes))


class _Files:
    """Where a pool looks for what is imported."""

    def __init__(self, files: Mapping[str, FileDescriptorProto]) -> None:
        self._files = files

    def FindFileByName(self, name: str) -> FileDescriptorProto:  # noqa: N802 - the library's name
        return self._files[name]

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptorProto:  # noqa: N802 - as above
        raise KeyError(symbol)


def _file(descriptor: str, uses: Uses) -> FileDescriptor:
    files = {**known(), **read([*uses, (_OWN, descriptor)])}
    pool = DescriptorPool(_Files(files))
    return pool.FindFileByName(_OWN)


class _MessageComparison:
    """One schema, the reader's, held against another, the writer's."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Descriptor, Descriptor]] = []
        self._begun: set[tuple[str, str]] = set()
        """Pairs by name: each is compared once, however often it is used, or uses itself."""

    def gaps(self, reader: FileDescriptor, writer: FileDescriptor) -> Iterator[str]:
        """Yield what the writer may write and the reader does not understand."""
        if reader.package != writer.package:
            yield f"the package is {reader.package!r}, not {writer.package!r}"
        yield from self._messages(reader.message_types_by_name, writer.message_types_by_name)
        while self._waiting:
            yield from self._message(*self._waiting.pop())

    def _messages(
        self, reader: Mapping[str, Descriptor], writer: Mapping[str, Descriptor]
    ) -> Iterator[str]:
        for name, written in writer.items():
            if _is_entry(written):
                continue  # compared where it is used, as a map
            if name in reader:
                self._compare(reader[name], written)
            else:
                yield f"message {written.full_name} is missing"

    def _compare(self, reader: Descriptor, writer: Descriptor) -> None:
        pair = reader.full_name, writer.full_name
        if pair not in self._begun:
            self._begun.add(pair)
            self._waiting.append((reader, writer))

    def _message(self, reader: Descriptor, writer: Descriptor) -> Iterator[str]:
        yield from self._messages(reader.nested_types_by_name, writer.nested_types_by_name)
        yield from _exclusions(reader, writer)
        reads, writes = reader.fields_by_number, writer.fields_by_number
        for number, written in sorted(writes.items()):
            if number in reads:
                yield from self._field(reads[number], written)
            else:
                yield from _removal(reader, written)
        for number in sorted({*reads} - {*writes}):
            if reads[number].is_required:
                yield f"{_place(reads[number])} is new and required"

    def _field(self, read: FieldDescriptor, written: FieldDescriptor) -> Iterator[str]:
        reads, writes = _encoding(read), _encoding(written)
        if reads != writes:
            yield f"{_place(read)} is {reads}, not {writes}"
        elif read.message_type is not None and written.message_type is not None:
            yield from self._typed(read, read.message_type, written.message_type)
        elif read.is_repeated != written.is_repeated and reads != "text or bytes":
            yield f"{_place(read)} is {'' if read.is_repeated else 'not '}repeated"
        if read.is_required and not written.is_required:
            yield f"{_place(read)} is required"

    def _typed(
        self, field: FieldDescriptor, reader: Descriptor, writer: Descriptor
    ) -> Iterator[str]:
        """Compare the messages, or the maps, that one field holds."""
        if _is_entry(reader):
            for name, written in writer.fields_by_name.items():
                yield from self._field(reader.fields_by_name[name], written)
        elif _local_name(reader) == _local_name(writer):
            self._compare(reader, writer)
        else:
            names = _local_name(reader), _local_name(writer)
            yield f"{_place(field)} is the message {names[0]}, not {names[1]}"


def _exclusions(reader: Descriptor, writer: Descriptor) -> Iterator[str]:
    """Yield oneofs of the reader that exclude one another's fields where the writer does not."""
    for oneof in reader.oneofs:
        there = [writer.fields_by_number.get(field.number) for field in oneof.fields]
        if len({_group(field) for field in there if field is not None}) > 1:
            yield f"oneof {oneof.name} of {reader.full_name} joins fields that were apart"


def _group(field: FieldDescriptor) -> str:
    """What a field shares with those of its oneof only."""
    return (field.containing_oneof or field).full_name


def _removal(reader: Descriptor, written: FieldDescriptor) -> Iterator[str]:
    """Yield why the reader must have a field that it does not have."""
    if written.is_required:
        yield f"{_place(written)} is missing, and was required"
        return
    oneof = written.containing_oneof
    # One alone excludes nothing; it is what `optional` is compiled to, too.
    if oneof is None or len(oneof.fields) == 1:
        return
    survives = oneof.name in reader.oneofs_by_name
    if survives or any(one.number in reader.fields_by_number for one in oneof.fields):
        yield f"{_place(written)} is missing in oneof {oneof.name}"


def _place(field: FieldDescriptor) -> str:
    return f"field {field.number} of {field.full_name.rpartition('.')[0]}"


def _encoding(field: FieldDescriptor) -> str:
    if field.message_type is not None and _is_entry(field.message_type):
        return "a map"
    return _ENCODING_OF[field.type]


def _is_entry(message: Descriptor) -> bool:
    return message.GetOptions().map_entry


def _local_name(message: Descriptor) -> str:
    package = message.file.package
    return message.full_name.removeprefix(f"{package}.") if package else message.full_name
