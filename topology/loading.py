"""A YAML file to plain values: the only importer of `yaml`.

YAML can do much that a declaration of clusters has no use for and that has been used to bring
programs down or to mislead people. Refused: anchors and aliases (a few lines expand to gigabytes),
merge keys, tags, duplicate keys, several documents, more than 1 MiB, more than 32 levels. Scalars
follow YAML 1.2's JSON schema: `no` is text, `22:22` is text, `010` is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from topology.decode import decode
from topology.errors import InvalidError, Problem, UnreadableError
from topology.rules import problems_of

if TYPE_CHECKING:
    from topology.model import Topology

FILE_BYTES_MAX = 1024 * 1024
"""Some thousands of clusters; a mistaken path to a data file is larger."""

DEPTH_MAX = 32
"""A binary tree of 30 levels has more clusters than anybody."""

_CORE_TAG = "tag:yaml.org,2002:"


def load(path: Path | str) -> Topology:
    """Read and validate a topology file.

    Raises:
        UnreadableError: There is no such file, or it is not YAML that is accepted.
        InvalidError: It is wrong; every problem is named.
    """
    source = str(path)
    values = parse(_text(Path(path)), source)
    topology, problems = decode(values)
    if topology is not None:
        problems += problems_of(topology)
    if problems or topology is None:
        raise InvalidError(source, problems)
    return topology


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            octets = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if len(octets) > FILE_BYTES_MAX:
        raise UnreadableError(f"cannot use {str(path)!r}: larger than {FILE_BYTES_MAX} bytes")
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"cannot use {str(path)!r}: not UTF-8 text") from error


def parse(text: str, source: str) -> object:
    """Return the values in a YAML text: dicts, lists, strings, numbers, booleans and None.

    Raises:
        UnreadableError: It is not YAML, or not YAML that is accepted.
        InvalidError: A key stands twice in one mapping.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        problems: list[Problem] = []
        values = None if node is None else _construct(node, "$", 1, problems)
    except yaml.YAMLError as error:
        raise UnreadableError(f"cannot use {source}: {_sentence(error)}") from error
    except RecursionError as error:
        raise UnreadableError(f"cannot use {source}: nested too deeply") from error
    finally:
        loader.dispose()
    if problems:
        raise InvalidError(source, problems)
    return values


class _Loader(yaml.SafeLoader):
    """Composes nodes, refusing what has no place in a declaration while it is being read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node; called by PyYAML for each."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not accepted: write the value out",
                problem_mark=event.start_mark,
            )
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem=f"tag {event.tag!r} is not accepted", problem_mark=event.start_mark
            )
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {DEPTH_MAX} deep", problem_mark=event.start_mark
            )
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _sentence(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} at line {mark.line + 1}, column {mark.column + 1}"
    return str(error).replace("\n", " ")


def _construct(node: yaml.Node, path: str, depth: int, problems: list[Problem]) -> object:
    if isinstance(node, yaml.MappingNode):
        return _construct_mapping(node, path, depth, problems)
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(item, f"{path}[{index}]", depth + 1, problems)
            for index, item in enumerate(node.value)
        ]
    return _scalar(node, path, problems)


def _construct_mapping(
    node: yaml.MappingNode, path: str, depth: int, problems: list[Problem]
) -> dict[object, object]:
    values: dict[object, object] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(Problem(path, "a key must be a word or a number"))
            continue
        key = _scalar(key_node, path, problems)
        if key in values:
            line = key_node.start_mark.line + 1
            message = f"key {key!r} stands twice, again in line {line}"
            problems.append(Problem(path, message, "keep one of them"))
        values[key] = _construct(value_node, f"{path}.{key}", depth + 1, problems)
    return values


_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def _scalar(node: yaml.Node, path: str, problems: list[Problem]) -> object:
    text = str(node.value)
    if getattr(node, "style", None) in ("'", '"', "|", ">"):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        # Longer numbers than any field takes; int() of a megabyte of digits is slow.
        return int(text) if len(text) <= 20 else text
    if text.isdigit():
        problems.append(Problem(path, f"number {text!r} has a leading zero", "drop it or quote it"))
    return text
