"""Plain values to the model: every key known, nothing coerced, every problem with its path."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from topology.copyflags import LEVEL_MAX
from topology.errors import Problem
from topology.model import (
    Branch,
    Cluster,
    ClusterName,
    Metrics,
    StoreSpec,
    Topics,
    Topology,
    Tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

FORMAT_VERSION = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ENDPOINT = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")


def decode(values: object) -> tuple[Topology | None, list[Problem]]:
    """Return the topology and what is wrong; None if too much is wrong to build one."""
    decoder = _Decoder()
    topology = decoder.topology(values)
    return (None if decoder.problems else topology), decoder.problems


class _Decoder:
    """Collects problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def topology(self, values: object) -> Topology | None:
        keys = ("version", "name", "clusters", "tree", "topics", "metrics")
        fields = self.mapping(values, "$", keys, required=("version", "name", "clusters", "tree"))
        if fields is None:
            return None
        if fields.get("version", FORMAT_VERSION) != FORMAT_VERSION:
            self.complain("$.version", f"version {fields['version']!r} is not known", "write 1")
        clusters = self.sequence(fields.get("clusters", []), "$.clusters", self.cluster)
        tree = self.tree(fields["tree"], "$.tree") if "tree" in fields else None
        return Topology(
            name=self.name(fields.get("name", "unnamed"), "$.name"),
            clusters=tuple(cluster for cluster in clusters if cluster is not None),
            tree=tree if tree is not None else ClusterName(""),
            topics=self.topics(fields.get("topics", {}), "$.topics"),
            metrics=self.metrics(fields["metrics"], "$.metrics") if "metrics" in fields else None,
        )

    def cluster(self, values: object, path: str) -> Cluster | None:
        keys = ("name", "id", "host", "towers", "stores", "targets")
        fields = self.mapping(values, path, keys, required=("name", "id", "towers", "stores"))
        if fields is None:
            return None
        return Cluster(
            name=ClusterName(self.name(fields.get("name", "unnamed"), f"{path}.name")),
            id=self.integer(fields.get("id", 1), f"{path}.id", 1, 65_535),
            host=self.matching(
                fields.get("host", "127.0.0.1"), f"{path}.host", _HOST, "a host name or address"
            ),
            towers=self.some(fields.get("towers"), f"{path}.towers", self.tower),
            stores=tuple(
                store
                for store in self.some(fields.get("stores"), f"{path}.stores", self.store)
                if store is not None
            ),
            targets=self.targets(fields.get("targets", {}), f"{path}.targets"),
        )

    def store(self, values: object, path: str) -> StoreSpec | None:
        fields = self.mapping(values, path, ("query", "data"), required=("query", "data"))
        if fields is None:
            return None
        data = fields.get("data", "data")
        if not isinstance(data, str) or not data or "\0" in data:
            self.complain(f"{path}.data", f"{data!r} is not a directory's path")
            data = "data"
        query = self.endpoint(fields.get("query", "tcp://127.0.0.1:1"), f"{path}.query")
        return StoreSpec(query=query, data=data)

    def targets(self, values: object, path: str) -> dict[int, tuple[ClusterName, ...]]:
        if not isinstance(values, dict):
            self.complain(path, f"{values!r} is not a mapping", "level: [cluster, …]")
            return {}
        return {
            self.integer(level, f"{path}.{level}", 1, LEVEL_MAX): tuple(
                ClusterName(name) for name in self.some(names, f"{path}.{level}", self.name)
            )
            for level, names in values.items()
        }

    def tree(self, values: object, path: str) -> Tree | None:
        if isinstance(values, str):
            return ClusterName(values)
        fields = self.mapping(values, path, ("level", "children"), required=("level", "children"))
        if fields is None:
            return None
        children = self.sequence(fields.get("children", []), f"{path}.children", self.tree)
        if "children" in fields and isinstance(fields["children"], list) and len(children) < 2:
            self.complain(
                f"{path}.children",
                f"a branch needs two children, it has {len(children)}",
                "write the child in the branch's place",
            )
        return Branch(
            level=self.integer(fields.get("level", 1), f"{path}.level", 1, LEVEL_MAX),
            children=tuple(child for child in children if child is not None),
        )

    def topics(self, values: object, path: str) -> Topics:
        fields = self.mapping(values, path, ("include", "exclude"))
        if fields is None:
            return Topics()
        default = Topics()
        return Topics(
            include=self.patterns(fields, "include", path, default.include),
            exclude=self.patterns(fields, "exclude", path, default.exclude),
        )

    def patterns(
        self, fields: dict[str, object], key: str, path: str, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        if key not in fields:
            return default
        return tuple(self.sequence(fields[key], f"{path}.{key}", self.pattern))

    def pattern(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not value:
            self.complain(path, f"{value!r} is not a pattern", 'for instance "orders-*", in quotes')
            return "*"
        return value

    def metrics(self, values: object, path: str) -> Metrics | None:
        fields = self.mapping(values, path, ("host", "first_port"), required=("first_port",))
        if fields is None:
            return None
        return Metrics(
            host=self.matching(
                fields.get("host", "127.0.0.1"), f"{path}.host", _HOST, "a host name or address"
            ),
            first_port=self.integer(fields.get("first_port", 1), f"{path}.first_port", 1, 65_535),
        )

    def name(self, value: object, path: str) -> str:
        return self.matching(
            value, path, _NAME, "a name: letters, digits, '.', '_' and '-', at most 63"
        )

    def endpoint(self, value: object, path: str, port_max: int = 65_535) -> str:
        text = self.matching(value, path, _ENDPOINT, "an endpoint: tcp://HOST:PORT")
        match = _ENDPOINT.fullmatch(text)
        if match is not None and not 1 <= int(match[2]) <= port_max:
            self.complain(path, f"port of {text!r} is out of range", f"1 to {port_max}")
        return text

    def tower(self, value: object, path: str) -> str:
        """A tower publishes on the port after the one it is named by."""
        return self.endpoint(value, path, port_max=65_534)

    # The plain kinds of value.

    def complain(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(path, message, hint))

    def mapping(
        self, values: object, path: str, keys: tuple[str, ...], required: tuple[str, ...] = ()
    ) -> dict[str, object] | None:
        if not isinstance(values, dict):
            self.complain(path, f"{_short(values)} is not a mapping", f"keys: {', '.join(keys)}")
            return None
        for key in values:
            if key not in keys:
                near = get_close_matches(str(key), keys, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(keys)}"
                self.complain(f"{path}.{key}", f"unknown key {key!r}", hint)
        for key in required:
            if key not in values:
                self.complain(path, f"key {key!r} is missing")
        return {key: value for key, value in values.items() if key in keys}

    def sequence(self, values: object, path: str, item: Callable[[object, str], T]) -> list[T]:
        if not isinstance(values, list):
            self.complain(path, f"{_short(values)} is not a list")
            return []
        return [item(value, f"{path}[{index}]") for index, value in enumerate(values)]

    def some(self, values: object, path: str, item: Callable[[object, str], T]) -> tuple[T, ...]:
        """A list that must not be empty; a missing one has been complained of already."""
        if values is None:
            return ()
        found = self.sequence(values, path, item)
        if values == []:
            self.complain(path, "the list is empty", "at least one is needed")
        return tuple(found)

    def integer(self, value: object, path: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.complain(path, f"{_short(value)} is not a whole number", f"{low} to {high}")
            return low
        if not low <= value <= high:
            self.complain(path, f"{value} is out of range", f"{low} to {high}")
            return low
        return value

    def matching(self, value: object, path: str, form: re.Pattern[str], what: str) -> str:
        if not isinstance(value, str) or not form.fullmatch(value):
            self.complain(path, f"{_short(value)} is not {what}")
            return "unusable"
        return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
