"""A YAML file to plain values, and back: the only importer of `yaml`.

YAML can do much that a declaration of clusters has no use for and that has been used to bring
programs down or to mislead people. Refused: anchors and aliases (a few lines expand to gigabytes),
merge keys, tags, duplicate keys, several documents, more than 1 MiB, more than 32 levels. Scalars
follow YAML 1.2's JSON schema: `no` is text, `22:22` is text, `010` is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from topology.decode import decode
from topology.errors import InvalidError, Problem, UnreadableError, below, short
from topology.rules import problems_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.model import Topology

FILE_BYTES_MAX = 1024 * 1024
"""Some thousands of clusters; a mistaken path to a data file is larger."""

DEPTH_MAX = 32
"""A branch takes two, itself and its list of children: room for 15 branches in one line."""


def load(path: Path | str) -> Topology:
    """Read and validate a topology file.

    Raises:
        UnreadableError: There is no such file, or it is not YAML that is accepted.
        InvalidError: It is wrong; every problem is named.
    """
    source = str(path)
    document = parse(_text(Path(path)), source)
    topology, problems = decode(document.values, str(Path(path).absolute().parent))
    problems = [*document.problems, *problems, *problems_of(topology)]
    if problems:
        placed = [replace(problem, line=document.line(problem.path)) for problem in problems]
        raise InvalidError(source, sorted(placed, key=lambda problem: problem.line))
    return topology


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            octets = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        # A NUL or a lone surrogate, which no path can hold.
        raise UnreadableError(f"cannot read {str(path)!r}: not a path") from error
    if len(octets) > FILE_BYTES_MAX:
        raise UnreadableError(f"cannot use {str(path)!r}: larger than {FILE_BYTES_MAX} bytes")
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"cannot use {str(path)!r}: not UTF-8 text") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a YAML text says.

    Attributes:
        values: Dicts, lists, strings, whole numbers, booleans and None.
        lines: Where each path stands, from 1.
        problems: Keys that stand twice, numbers that could be read in two ways.
    """

    values: object
    lines: dict[str, int]
    problems: list[Problem]

    def line(self, path: str) -> int:
        """Where a path stands; what is missing stands where the value does that lacks it."""
        while path not in self.lines and path != "$":
            path = re.sub(r"(\.[^.]*|\[[^\[]*\])$", "", path) if path.startswith("$") else "$"
        return self.lines.get(path, 0)


def parse(text: str, source: str) -> Document:
    """Read a YAML text.

    Raises:
        UnreadableError: It is not YAML, or not YAML that is accepted.
    """
    try:
        node = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise UnreadableError(f"cannot use {source}: {_sentence(error)}") from error
    document = Document(values=None, lines={}, problems=[])
    if node is None:
        raise UnreadableError(f"cannot use {source}: the file is empty")
    return replace(document, values=_construct(node, "$", document))


def dumped(documents: Iterable[object]) -> str:
    """Write values as YAML, each as a document; keys stay in their order, long lines whole."""
    return str(
        yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=True)
    )


class _Dumper(yaml.SafeDumper):
    """Writes a value out each time that it stands somewhere."""

    def ignore_aliases(self, data: object) -> bool:
        """None; called by PyYAML for each."""
        return True


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
                problem=f"tag {short(event.tag)} is not accepted", problem_mark=event.start_mark
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
        what = f"{error.context} {error.problem}" if error.context else str(error.problem)
        where = f"{what} at line {mark.line + 1}, column {mark.column + 1}"
        return where + _remedy(what, mark)
    if isinstance(error, yaml.reader.ReaderError):
        return f"not text: character {short(error.character)} at position {error.position}"
    return str(error).replace("\n", " ")


def _remedy(what: str, mark: yaml.Mark) -> str:
    """What to do about what people write most often that YAML takes for something else."""
    line = (mark.buffer or "").rstrip("\0").split("\n")[mark.line :][:1]
    if "'\\t'" in what:
        return ": indent with spaces, not with tabs"
    if "alias" in what:
        return ": what begins with * or & stands in quotes"
    if line and "${" in line[0]:
        return ": variables are not filled in, write the value"
    return ""


def _construct(node: yaml.Node, path: str, document: Document) -> object:
    document.lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _construct_mapping(node, path, document)
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(item, f"{path}[{index}]", document) for index, item in enumerate(node.value)
        ]
    return _scalar(node, path, document.problems)


def _construct_mapping(
    node: yaml.MappingNode, path: str, document: Document
) -> dict[object, object]:
    values: dict[object, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            message = f"a key in line {line} is neither a word nor a number"
            document.problems.append(Problem(path, message, "keys are plain words"))
            continue
        key = _scalar(key_node, path, document.problems)
        where = below(path, key)
        if key in values:
            message = f"key {short(key)} stands twice, again in line {line}"
            document.problems.append(Problem(where, message, "keep one of them"))
            continue
        document.lines[where] = line
        values[key] = _construct(value_node, where, document)
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
    if re.fullmatch(r"0[0-9]+", text):
        message = f"number {short(text)} has a leading zero"
        problems.append(Problem(path, message, "drop the zero, or quote it if it is a name"))
    return text
