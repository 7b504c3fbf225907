"""Plain values to the model: every key known, nothing coerced, every problem with its path.

A value that cannot be read leaves a hole in the topology: an empty text or a zero, neither of which
any file can declare. The rules pass over holes, so they can be asked about the rest of a broken
file, and an operator hears of everything at once.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from topology.addresses import PORT_MAX, endpoint_fault, names_a_host
from topology.copyflags import LEVEL_MAX
from topology.errors import Problem, below, short
from topology.formats import IDENTITY
from topology.model import (
    COMPRESSIONS,
    WHOLE_RING,
    Branch,
    ClusterName,
    ClusterSpec,
    ControllerSpec,
    ControlSpec,
    GatewaySpec,
    GroupMargin,
    Levels,
    Links,
    OffsetSettings,
    Placement,
    Ports,
    ReplicaSpec,
    RetentionSpec,
    Security,
    StoreSpec,
    Topics,
    Topology,
    Tree,
    Web,
)
from topology.naming_rules import read_fields, read_format
from topology.slots import read_slots

if TYPE_CHECKING:
    from collections.abc import Callable


KEYS = {
    "file": (
        *("version", "name", "clusters", "tree", "levels", "topics", "placement"),
        *("retention", "links", "metrics", "control", "fields", "topic_format", "schemas"),
        *("heartbeat_ms", "offsets", "web"),
    ),
    "cluster": (
        *("name", "id", "host", "advertise", "towers", "stores", "copies", "targets"),
        *("security", "insecure", "wire", "classic", "delivery", "registry", "subject_format"),
        *("gateways", "receive_only", "controllers", "replicas"),
    ),
    "controller": ("metrics", "listen"),
    "replica": ("listen", "metrics"),
    "gateway": ("listen", "advertised_listener", "users"),
    "schemas": ("primary",),
    "offsets": ("margin_ms", "margin_records", "translation", "groups"),
    "group": ("pattern", "margin_ms"),
    "security": ("access", "cluster_key", "key"),
    "web": ("access", "token"),
    "store": ("query", "data", "durability", "slots"),
    "branch": ("level", "children"),
    "levels": ("epoch", "retired"),
    "topics": ("include", "exclude"),
    "placement": ("topics", "clusters"),
    "retention": ("topics", "age_s", "bytes", "hold_age_s", "hold_bytes"),
    "links": (
        *("failover_after_ms", "failback", "repair_after_ms", "bytes_per_s", "records_per_s"),
        *("skip_overtaken", "shares", "compression"),
    ),
    "metrics": ("host", "first_port"),
    "control": ("directory",),
}
"""Every key there is, by what it belongs to."""

_GONE = {
    ("control", key): "commands are taken at Unix sockets: write control: {directory: control}"
    for key in ("host", "first_port")
}
"""Keys that there were, and what to write now."""

OPTIONAL = {
    *("topics", "retention", "links", "metrics", "control", "host", "targets", "directory"),
    *("include", "exclude", "durability", "age_s", "bytes", "security", "insecure"),
    *("wire", "classic", "delivery", "registry", "subject_format", "fields", "schemas"),
    *("heartbeat_ms", "topic_format", "offsets", "web"),
    *("receive_only", "levels", "placement", "advertise", "gateways", "advertised_listener"),
    *("users", "controllers", "replicas", "listen", "hold_age_s", "hold_bytes", "copies", "slots"),
    *KEYS["levels"],
    *KEYS["links"],
    *KEYS["offsets"],
}

REQUIRED = {
    *(("retention", "topics"), ("group", "margin_ms"), ("placement", "topics")),
    *(("controller", "metrics"), ("replica", "metrics"), ("replica", "listen")),
    ("gateway", "listen"),
}
"""Keys that are optional elsewhere."""


T = TypeVar("T")

FORMAT_VERSION = 1

_RATE_MAX = 10**12
_COPIES_MAX = 16
_SHARES = (1, 64)
_WAIT_MS = (1_000, 86_400_000)
"""A second to a day: below, a pause of the machine is taken for a death."""
_HEARTBEAT_MS = (100, 60_000)

_DURABILITIES = ("fsync", "os")
_WIRES = ("rfc46", "libdafka")
_DELIVERIES = ("direct", "stores")
_TRANSLATIONS = ("timestamp", "exact")
_MARGIN_MS_MAX = 7 * 86_400_000
_MARGIN_RECORDS_MAX = 10**9
_EPOCH_MAX = 65_535
_AGE_S_MAX = 10**10
_BYTES_MAX = 10**18
_LOOPBACK = "127.0.0.1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def decode(values: object, directory: str = "") -> tuple[Topology, list[Problem]]:
    """Return the topology, with holes where it could not be read, and what is wrong.

    Args:
        values: Dicts, lists, strings, whole numbers, booleans and None.
        directory: What the paths of key files are relative to.
    """
    decoder = _Decoder(directory)
    return decoder.topology(values), decoder.problems


class _Decoder:
    """Collects problems instead of stopping at the first."""

    def __init__(self, directory: str) -> None:
        self.problems: list[Problem] = []
        self._directory = directory

    def topology(self, values: object) -> Topology:
        fields = self.mapping(values, "$", "file")
        version = fields.get("version", FORMAT_VERSION)
        if isinstance(version, bool) or version != FORMAT_VERSION:
            self.complain("$.version", f"version {short(version)} is not known", "write 1")
        clusters = self.sequence(fields.get("clusters", []), "$.clusters", self.cluster)
        if fields.get("clusters") == []:
            self.complain("$.clusters", "there is no cluster", "declare at least one")
        return Topology(
            name=self.name(fields["name"], "$.name") if "name" in fields else "",
            clusters=tuple(clusters),
            tree=self.tree(fields["tree"], "$.tree") if "tree" in fields else ClusterName(""),
            topics=self.topics(fields.get("topics", {}), "$.topics"),
            retention=self.retentions(fields.get("retention", [])),
            links=self.links(fields.get("links", {}), "$.links"),
            metrics=self.metrics(fields["metrics"], "$.metrics") if "metrics" in fields else None,
            control=self.control(fields["control"], "$.control") if "control" in fields else None,
            topic_format=read_format(
                fields.get("topic_format", IDENTITY), "$.topic_format", self.complain
            ),
            fields=read_fields(fields.get("fields", {}), "$.fields", self.complain),
            primary=self.primary(fields["schemas"], "$.schemas") if "schemas" in fields else None,
            heartbeat_ms=self.integer(fields["heartbeat_ms"], "$.heartbeat_ms", *_HEARTBEAT_MS)
            if "heartbeat_ms" in fields
            else None,
            web=self.web(fields["web"], "$.web") if "web" in fields else None,
            offsets=self.offsets(fields.get("offsets", {}), "$.offsets"),
            placement=tuple(
                self.sequence(fields.get("placement", []), "$.placement", self.placement)
            ),
            levels=self.levels(fields.get("levels", {})),
        )

    def cluster(self, values: object, path: str) -> ClusterSpec:
        fields = self.mapping(values, path, "cluster")
        return ClusterSpec(
            name=self.cluster_name(fields["name"], f"{path}.name")
            if "name" in fields
            else ClusterName(""),
            id=self.integer(fields["id"], f"{path}.id", 1, 65_535) if "id" in fields else 0,
            host=self.host(fields.get("host", _LOOPBACK), f"{path}.host"),
            advertise=self.host(fields["advertise"], f"{path}.advertise")
            if "advertise" in fields
            else None,
            towers=self.some(fields.get("towers"), f"{path}.towers", self.tower),
            stores=self.some(fields.get("stores"), f"{path}.stores", self.store),
            copies=self.integer(fields.get("copies", 1), f"{path}.copies", 1, _COPIES_MAX),
            targets=self.targets(fields.get("targets", {}), f"{path}.targets"),
            security=self.security(fields["security"], f"{path}.security")
            if "security" in fields
            else None,
            insecure=self.flag(fields.get("insecure", False), f"{path}.insecure"),
            wire=self.choice(fields.get("wire", _WIRES[0]), f"{path}.wire", _WIRES),
            classic=self.flag(fields["classic"], f"{path}.classic")
            if "classic" in fields
            else None,
            delivery=self.choice(
                fields.get("delivery", _DELIVERIES[0]), f"{path}.delivery", _DELIVERIES
            ),
            registry=self.endpoint(fields["registry"], f"{path}.registry", kind="http")
            if "registry" in fields
            else "",
            subject_format=read_format(
                fields.get("subject_format", IDENTITY), f"{path}.subject_format", self.complain
            ),
            gateways=tuple(
                self.sequence(fields.get("gateways", []), f"{path}.gateways", self.gateway)
            ),
            receive_only=self.flag(fields.get("receive_only", False), f"{path}.receive_only"),
            controllers=tuple(
                self.sequence(fields.get("controllers", []), f"{path}.controllers", self.controller)
            ),
            replicas=tuple(
                self.sequence(fields.get("replicas", []), f"{path}.replicas", self.replica)
            ),
        )

    def controller(self, values: object, path: str) -> ControllerSpec:
        return ControllerSpec(**({"metrics": ""} | self.places(values, path, "controller")))

    def replica(self, values: object, path: str) -> ReplicaSpec:
        found = self.places(values, path, "replica")
        return ReplicaSpec(**({"listen": "", "metrics": ""} | found))

    def places(self, values: object, path: str, kind: str) -> dict[str, str]:
        fields = self.mapping(values, path, kind)
        return {key: self.place(fields[key], f"{path}.{key}", "processes") for key in fields}

    def gateway(self, values: object, path: str) -> GatewaySpec:
        fields = self.mapping(values, path, "gateway")
        readers = {"users": self.file}
        found = {
            key: readers.get(key, self.listener)(fields[key], f"{path}.{key}") for key in fields
        }
        return GatewaySpec(**({"listen": ""} | found))

    def listener(self, value: object, path: str) -> str:
        return self.place(value, path, "Kafka clients")

    def place(self, value: object, path: str, whom: str) -> str:
        if isinstance(value, str) and endpoint_fault(f"tcp://{value}") is None:
            return value
        self.complain(path, f"{short(value)} is no place for {whom}", "write HOST:PORT")
        return ""

    def primary(self, values: object, path: str) -> ClusterName | None:
        fields = self.mapping(values, path, "schemas")
        if "primary" not in fields:
            return ClusterName("")
        return self.cluster_name(fields["primary"], f"{path}.primary")

    def security(self, values: object, path: str) -> Security:
        fields = self.mapping(values, path, "security")
        files = {key: self.file(fields[key], f"{path}.{key}") for key in fields}
        named = {"access": "", "cluster_key": "", "key": ""} | files
        return Security(**named, directory=self._directory)

    def web(self, values: object, path: str) -> Web:
        fields = self.mapping(values, path, "web")
        files = {key: self.file(fields[key], f"{path}.{key}") for key in fields}
        return Web(**({"access": "", "token": ""} | files), directory=self._directory)

    def file(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not value or "\0" in value:
            self.complain(path, f"{short(value)} is not a file's path")
            return ""
        return value

    def store(self, values: object, path: str) -> StoreSpec:
        fields = self.mapping(values, path, "store")
        data = fields.get("data", "")
        if "data" in fields and (not isinstance(data, str) or not data or "\0" in data):
            self.complain(f"{path}.data", f"{short(data)} is not a directory's path")
        query = self.endpoint(fields["query"], f"{path}.query") if "query" in fields else ""
        durability = self.choice(
            fields.get("durability", _DURABILITIES[0]), f"{path}.durability", _DURABILITIES
        )
        return StoreSpec(
            query=query,
            data=data if isinstance(data, str) else "",
            durability=durability,
            slots=self.slots(fields["slots"], f"{path}.slots") if "slots" in fields else WHOLE_RING,
        )

    def slots(self, value: object, path: str) -> tuple[range, ...]:
        try:
            return read_slots(value if isinstance(value, str) else short(value))
        except ValueError as error:
            self.complain(path, str(error), 'for instance "0-2047", in quotes')
            return ()

    def targets(self, values: object, path: str) -> dict[int, tuple[ClusterName, ...]]:
        if not isinstance(values, dict):
            self.complain(path, f"{short(values)} is not a mapping", "level: [cluster, …]")
            return {}
        return {
            self.level(level, below(path, level)): self.some(
                names, below(path, level), self.cluster_name
            )
            for level, names in values.items()
        }

    def tree(self, values: object, path: str) -> Tree:
        if not isinstance(values, dict):
            return self.cluster_name(values, path)
        fields = self.mapping(values, path, "branch")
        children = self.sequence(fields.get("children", []), f"{path}.children", self.tree)
        if isinstance(fields.get("children"), list) and len(children) < 2:
            self.complain(
                f"{path}.children",
                f"a branch needs two children, it has {len(children)}",
                "write the child in the branch's place",
            )
        level = 0
        if "level" in fields:
            level = self.level(fields["level"], f"{path}.level")
        return Branch(level=level, children=tuple(children) or (ClusterName(""),))

    def levels(self, values: object) -> Levels:
        fields = self.mapping(values, "$.levels", "levels")
        retired = self.sequence(fields.get("retired", []), "$.levels.retired", self.level)
        epoch = self.integer(fields.get("epoch", 0), "$.levels.epoch", 0, _EPOCH_MAX)
        return Levels(epoch=epoch, retired=tuple(retired))

    def level(self, value: object, path: str) -> int:
        return self.integer(value, path, 1, LEVEL_MAX)

    def placement(self, values: object, path: str) -> Placement:
        fields = self.mapping(values, path, "placement")
        clusters = self.some(fields.get("clusters"), f"{path}.clusters", self.cluster_name)
        topics = self.pattern(fields["topics"], f"{path}.topics") if "topics" in fields else ""
        return Placement(topics=topics, clusters=clusters)

    def topics(self, values: object, path: str) -> Topics:
        fields = self.mapping(values, path, "topics")
        default = Topics()
        return Topics(
            include=self.patterns(fields, "include", path, default.include),
            exclude=self.patterns(fields, "exclude", path, default.exclude),
        )

    def retentions(self, values: object) -> tuple[RetentionSpec, ...]:
        return tuple(self.sequence(values, "$.retention", self.retention))

    def retention(self, values: object, path: str) -> RetentionSpec:
        fields = self.mapping(values, path, "retention")
        if fields and not fields.keys() & {"age_s", "bytes"}:
            self.complain(path, "nothing is said of how long to keep", "add age_s, bytes or both")
        maxima = (_AGE_S_MAX, _BYTES_MAX, _AGE_S_MAX, _BYTES_MAX)
        age_s, bytes_max, hold_age_s, hold_bytes = (
            self.integer(fields[key], f"{path}.{key}", 1, most) if key in fields else None
            for key, most in zip(KEYS["retention"][1:], maxima, strict=True)
        )
        topics = self.pattern(fields["topics"], f"{path}.topics") if "topics" in fields else ""
        return RetentionSpec(
            topics=topics,
            age_s=age_s,
            bytes_max=bytes_max,
            hold_age_s=hold_age_s,
            hold_bytes=hold_bytes,
        )

    def patterns(
        self, fields: dict[str, object], key: str, path: str, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        if key not in fields:
            return default
        return tuple(self.sequence(fields[key], f"{path}.{key}", self.pattern))

    def pattern(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not value:
            hint = 'for instance "orders-*", in quotes'
            self.complain(path, f"{short(value)} is not a pattern", hint)
            return ""
        return value

    def links(self, values: object, path: str) -> Links:
        fields = self.mapping(values, path, "links")
        default = Links()

        def shares(value: object, path: str) -> int:
            return self.integer(value, path, *_SHARES)

        def compression(value: object, path: str) -> str:
            return self.choice(value, path, COMPRESSIONS)

        of, of_levels = self.by_level(fields, "shares", path, default.shares, shares)
        by, by_levels = self.by_level(fields, "compression", path, default.compression, compression)
        return Links(
            shares=of,
            level_shares=of_levels,
            compression=by,
            level_compression=by_levels,
            failover_after_ms=self.integer(
                fields.get("failover_after_ms", default.failover_after_ms),
                f"{path}.failover_after_ms",
                *_WAIT_MS,
            ),
            failback=self.flag(fields.get("failback", default.failback), f"{path}.failback"),
            repair_after_ms=self.integer(
                fields.get("repair_after_ms", default.repair_after_ms),
                f"{path}.repair_after_ms",
                *_WAIT_MS,
            ),
            bytes_per_s=self.rate(fields, "bytes_per_s", path, 65_536),
            records_per_s=self.rate(fields, "records_per_s", path, 1),
            skip_overtaken=self.patterns(fields, "skip_overtaken", path, default.skip_overtaken),
        )

    def by_level(
        self,
        fields: dict[str, object],
        key: str,
        path: str,
        default: T,
        one: Callable[[object, str], T],
    ) -> tuple[T, dict[int, T]]:
        """Of all links, or by level; who is not named has the default."""
        path, values = f"{path}.{key}", fields.get(key, default)
        if not isinstance(values, dict):
            return one(values, path), {}
        found = {
            self.level(level, below(path, level)): one(value, below(path, level))
            for level, value in values.items()
        }
        return default, found

    def offsets(self, values: object, path: str) -> OffsetSettings:
        fields = self.mapping(values, path, "offsets")
        default = OffsetSettings()
        # Whoever gives margins means what has them.
        margins = {"margin_ms", "margin_records", "groups"}
        implied = "timestamp" if margins & fields.keys() else default.translation
        chosen = fields.get("translation", implied)
        return OffsetSettings(
            translation=self.choice(chosen, f"{path}.translation", _TRANSLATIONS),
            margin_ms=self.margin(fields.get("margin_ms", default.margin_ms), path),
            margin_records=self.integer(
                fields.get("margin_records", default.margin_records),
                f"{path}.margin_records",
                0,
                _MARGIN_RECORDS_MAX,
            ),
            groups=tuple(
                self.sequence(fields.get("groups", []), f"{path}.groups", self.group_margin)
            ),
        )

    def group_margin(self, values: object, path: str) -> GroupMargin:
        fields = self.mapping(values, path, "group")
        pattern = self.pattern(fields["pattern"], f"{path}.pattern") if "pattern" in fields else ""
        return GroupMargin(pattern=pattern, margin_ms=self.margin(fields.get("margin_ms", 0), path))

    def margin(self, value: object, path: str) -> int:
        return self.integer(value, f"{path}.margin_ms", 0, _MARGIN_MS_MAX)

    def rate(self, fields: dict[str, object], key: str, path: str, low: int) -> int | None:
        if key not in fields:
            return None
        return self.integer(fields[key], f"{path}.{key}", low, _RATE_MAX) or None

    def control(self, values: object, path: str) -> ControlSpec:
        fields = self.mapping(values, path, "control")
        directory = fields.get("directory", ControlSpec().directory)
        return ControlSpec(
            directory=self.file(directory, f"{path}.directory"), base=self._directory
        )

    def metrics(self, values: object, path: str) -> Ports:
        fields = self.mapping(values, path, "metrics")
        port = 0
        if "first_port" in fields:
            port = self.integer(fields["first_port"], f"{path}.first_port", 1, PORT_MAX)
        host = self.host(fields.get("host", _LOOPBACK), f"{path}.host")
        return Ports(host=host, first_port=port)

    def name(self, value: object, path: str) -> str:
        if isinstance(value, str) and _NAME.fullmatch(value):
            return value
        hint = "begin with a letter or digit; letters, digits, '.', '_' and '-'; at most 63"
        self.complain(path, f"{short(value)} is not a name", hint)
        return ""

    def cluster_name(self, value: object, path: str) -> ClusterName:
        return ClusterName(self.name(value, path))

    def host(self, value: object, path: str) -> str:
        if isinstance(value, str) and names_a_host(value):
            return value
        hint = "a name, an IPv4 address, or an IPv6 address in brackets"
        self.complain(path, f"{short(value)} is not a host", hint)
        return ""

    def endpoint(
        self, value: object, path: str, port_max: int = PORT_MAX, kind: str = "tcp"
    ) -> str:
        fault = endpoint_fault(value, port_max, kind)
        if fault is None:
            return str(value)
        self.complain(path, *fault)
        return ""

    def tower(self, value: object, path: str) -> str:
        """A tower publishes on the port after the one it is named by."""
        return self.endpoint(value, path, port_max=PORT_MAX - 1)

    # The plain kinds of value.

    def complain(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(path, message, hint))

    def mapping(self, values: object, path: str, kind: str) -> dict[str, object]:
        keys = KEYS[kind]
        if not isinstance(values, dict):
            self.complain(path, f"{short(values)} is not a mapping", f"keys: {', '.join(keys)}")
            return {}
        for key in values:
            if key not in keys:
                near = get_close_matches(str(key)[:63], keys, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(keys)}"
                hint = _GONE.get((kind, str(key)), hint)
                self.complain(below(path, key), f"unknown key {short(key)}", hint)
        for key in keys:
            if key not in values and (key not in OPTIONAL or (kind, key) in REQUIRED):
                self.complain(path, f"key {key!r} is missing", "config/README.md tells what it is")
        return {key: value for key, value in values.items() if key in keys}

    def sequence(self, values: object, path: str, item: Callable[[object, str], T]) -> list[T]:
        if not isinstance(values, list):
            self.complain(path, f"{short(values)} is not a list", "write it in [ ]")
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

    def choice(self, value: object, path: str, choices: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in choices:
            self.complain(path, f"{short(value)} is not known", " or ".join(choices))
            return ""
        return value

    def flag(self, value: object, path: str) -> bool:
        if not isinstance(value, bool):
            self.complain(path, f"{short(value)} is neither true nor false")
            return False
        return value

    def integer(self, value: object, path: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            unit = isinstance(value, str) and re.fullmatch(r"[0-9]+ *[A-Za-z]+", value)
            hint = f"{low} to {high}" + (", without a unit" if unit else "")
            self.complain(path, f"{short(value)} is not a whole number", hint)
            return 0
        if not low <= value <= high:
            self.complain(path, f"{value} is out of range", f"{low} to {high}")
            return 0
        return value
