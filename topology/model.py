"""The declared world: clusters, the tree over them, and what is copied. Values only."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, NewType

from topology.formats import IDENTITY
from topology.slots import SLOTS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

ClusterName = NewType("ClusterName", str)

INTERNAL = "_"
"""How the topics of the clusters themselves begin: schemas, offsets."""

HEARTBEATS = "__heartbeat"
"""One of those that links copy all the same, to show how late they are."""

KAFKA_TOPICS = "__topics"
"""The other one: what topics Kafka clients have made, so that they are on every cluster."""

_TRAVELLING = HEARTBEATS, KAFKA_TOPICS


WHOLE_RING = (range(SLOTS),)
"""The slots of a store that keeps all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """One store of a cluster.

    Attributes:
        query: Endpoint of its query port.
        data: Its directory, relative to where the process is started.
        durability: What its ACK survives: `fsync` a power cut, `os` the process's death.
        slots: Which of the ring it keeps; what a cluster says of itself every store keeps.
    """

    query: str
    data: str
    durability: str = "fsync"
    slots: tuple[range, ...] = WHOLE_RING

    @property
    def share(self) -> float:
        """Which part of the ring that is, from 0 to 1."""
        return sum(map(len, self.slots)) / SLOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySpec:
    """A gateway of one cluster, for Kafka clients.

    Attributes:
        listen: Where it listens, `HOST:PORT`.
        advertised_listener: Where clients reach it, if not there.
        users: File of who may log in, relative to the topology file; empty: everybody may.
    """

    listen: str
    advertised_listener: str = ""
    users: str = ""

    @property
    def endpoint(self) -> str:
        """Where it listens, as other endpoints are written."""
        return f"tcp://{self.listen}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSpec:
    """A controller of one cluster: it says which replica copies what.

    Attributes:
        metrics: Where it serves metrics, and tells how it is, `HOST:PORT`; its name in the file.
        listen: Where operators ask and command it, `HOST:PORT`; empty for nowhere.
    """

    metrics: str
    listen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """A process that copies what a controller of its cluster wants.

    Attributes:
        listen: Where controllers reach it, `HOST:PORT`; also its name.
        metrics: Where it serves metrics, and tells what its links do, `HOST:PORT`.
    """

    listen: str
    metrics: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The key files of a cluster; paths are relative to the topology file.

    Attributes:
        directory: That of the topology file; no part of what is declared.
        access: The keys that the cluster knows, and their rights.
        cluster_key: Secret key of its towers and stores.
        key: Secret key of its distributors, and of who looks at it.
    """

    access: str
    cluster_key: str
    key: str
    directory: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """The files for what speaks HTTP; paths are relative to the topology file.

    Attributes:
        directory: That of the topology file; no part of what is declared.
        access: Who may use it, and the certificate that processes show.
        token: Of who looks at the topology: it reads metrics.
    """

    access: str
    token: str
    directory: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """One Dafka cluster, a leaf of the tree.

    Attributes:
        name: Unique.
        id: 1 to 65535, unique: the origin number in the envelopes of its records.
        host: Interface its nodes bind, and advertise unless something else is said.
        advertise: The host where others reach them, if it is another.
        towers: Their endpoints; each tower publishes on the next port.
        stores: At least one.
        copies: How many stores keep each slot, at least.
        targets: Per level, the clusters to copy to, the preferred one first.
        security: Its keys; without them only this machine can come in, unless it is insecure.
        insecure: Anybody who reaches it may come in: something else keeps strangers out.
        wire: How its nodes write to each other: `rfc46`, or `libdafka` as the C implementation.
        classic: Publishers send every record by itself, too, for peers that know no batches; None
            leaves it to `wire`.
        delivery: Whether nodes exchange records with everybody, `direct`, or with `stores` only.
        registry: Where its schema registry is, `http://host:port`; empty if it has none.
        subject_format: How subjects are spelled there.
        gateways: Its gateways for Kafka clients.
        receive_only: Nothing is copied from it: it gets what the others publish, and what is
            published on it stays there.
        controllers: They drive its replicas, one of them at a time.
        replicas: They do what `distributor run` and `distributor schemas` do elsewhere.
    """

    name: ClusterName
    id: int
    host: str = "127.0.0.1"
    advertise: str | None = None
    towers: tuple[str, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
    copies: int = 1
    targets: Mapping[int, tuple[ClusterName, ...]] = field(default_factory=dict)
    security: Security | None = None
    insecure: bool = False
    wire: str = "rfc46"
    classic: bool | None = None
    delivery: str = "direct"
    registry: str = ""
    subject_format: str = IDENTITY
    gateways: tuple[GatewaySpec, ...] = ()
    receive_only: bool = False
    controllers: tuple[ControllerSpec, ...] = ()
    replicas: tuple[ReplicaSpec, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", MappingProxyType(dict(self.targets)))

    @property
    def shared_out(self) -> bool:
        """Whether a store keeps some slots only."""
        return any(store.slots != WHOLE_RING for store in self.stores)

    @property
    def controlled(self) -> bool:
        """Whether replicas do all that distributors would, as its controllers say."""
        return bool(self.controllers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A node of the tree that stands for no process: where two or more subtrees meet.

    Attributes:
        level: Larger than every level below it.
        children: Branches, or names of clusters.
    """

    level: int
    children: tuple[Tree, ...]


Tree = Branch | ClusterName


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Which topics are copied: those that match an include pattern and no exclude pattern.

    Never those that begin with `_`: they are a cluster's own.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def wants(self, topic: str) -> bool:
        """Whether records of `topic` are copied."""
        return (
            not topic.startswith(INTERNAL)
            and any(fnmatchcase(topic, pattern) for pattern in self.include)
            and not any(fnmatchcase(topic, pattern) for pattern in self.exclude)
        )

    def copies(self, topic: str) -> bool:
        """Whether a link carries records of `topic`: what is wanted, heartbeats, Kafka's topics."""
        return topic in _TRAVELLING or self.wants(topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which clusters the topics that match a pattern are on, where these are not all.

    Attributes:
        topics: The pattern.
        clusters: At least one; the tree over them is the whole one without the others.
    """

    topics: str
    clusters: tuple[ClusterName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What holds for the levels of all branches.

    Within an epoch a level means one branch for ever, as its flag stands in the logs. In a new
    epoch all levels are free again: flags of a former one say only that a record was copied.

    Attributes:
        epoch: 0 to 65535; stands in the envelopes of copied records.
        retired: Levels of branches that this epoch had and that are gone.
    """

    epoch: int = 0
    retired: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSpec:
    """What stores need not keep of the topics that match a pattern.

    Attributes:
        topics: The pattern.
        age_s: Records older than so many seconds; None keeps them.
        bytes_max: The oldest beyond so many bytes of each topic and store; None keeps them.
        hold_age_s: Up to which age what other clusters lack is kept; None: no longer than the rest.
        hold_bytes: The same of bytes.
    """

    topics: str
    age_s: int | None = None
    bytes_max: int | None = None
    hold_age_s: int | None = None
    hold_bytes: int | None = None

    def covers(self, topic: str) -> bool:
        """Whether it is for a topic, if no rule before it is; as stores see it."""
        if topic.startswith("_") and not self.topics.startswith("_"):
            return False
        return fnmatchcase(topic, self.topics)

    @property
    def holds(self) -> bool:
        """Whether what other clusters lack is kept for longer."""
        return self.hold_age_s is not None or self.hold_bytes is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where processes listen: the first on `first_port`, each further one on the next."""

    host: str = "127.0.0.1"
    first_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSpec:
    """Where distributors take commands: at Unix sockets, which only their own user reaches.

    Attributes:
        directory: That of the sockets, relative to the topology file.
        base: That of the topology file; no part of what is declared.
    """

    directory: str = "control"
    base: str = field(default="", compare=False, repr=False)

    def socket_path(self, distributor: str) -> str:
        """Path of one distributor's socket, by its name."""
        return posixpath.join(self.base, self.directory, f"{distributor}.sock")


COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Those of Kafka's record batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """How every link behaves when something is wrong.

    Attributes:
        failover_after_ms: Silence of all stores of a target after which the next one is served.
        failback: Whether to return to the preferred target when it has been well for as long.
        repair_after_ms: How long a target may lack, without moving, what the source has.
        bytes_per_s: How much each link may send; None for as much as there is.
        records_per_s: The same.
        skip_overtaken: Patterns of topics that go on behind what the source keeps no more; all
            others stop.
        shares: In how many processes, or flows of a controller, a link's records are copied, each
            its partitions.
        level_shares: The same of links that cross these levels.
        compression: By what batches are compressed that are not yet, one of `COMPRESSIONS`.
        level_compression: The same of links that cross these levels.
    """

    failover_after_ms: int = 5_000
    failback: bool = False
    repair_after_ms: int = 10_000
    bytes_per_s: int | None = None
    records_per_s: int | None = None
    skip_overtaken: tuple[str, ...] = ()
    shares: int = 1
    level_shares: Mapping[int, int] = field(default_factory=dict)
    compression: str = "none"
    level_compression: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("level_shares", "level_compression"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def shares_at(self, level: int) -> int:
        """In how many shares the records of a link are copied that crosses a level."""
        return self.level_shares.get(level, self.shares)

    def compression_at(self, level: int) -> str:
        """By what a link compresses that crosses a level."""
        return self.level_compression.get(level, self.compression)

    def skips(self, topic: str) -> bool:
        """Whether a topic goes on behind what the source keeps no more."""
        return any(fnmatchcase(topic, pattern) for pattern in self.skip_overtaken)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMargin:
    """The margin of the groups that match a pattern."""

    pattern: str
    margin_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSettings:
    """How the positions of groups are brought to other clusters.

    Attributes:
        translation: `exact`: as they are, as a record has the same sequence everywhere;
            `timestamp`: to the first record of the committed one's time less a margin.
        margin_ms: The margin, for groups of which nothing else is said.
        margin_records: It takes no position further back than so many records, whatever clocks say.
        groups: Other margins; the first pattern that matches holds.
    """

    translation: str = "exact"
    margin_ms: int = 60_000
    margin_records: int = 10_000
    groups: tuple[GroupMargin, ...] = ()

    def margin_of(self, group: str) -> int | None:
        """The margin of a group in milliseconds; None if its positions are not translated."""
        if self.translation == "exact":
            return None
        for rule in self.groups:
            if fnmatchcase(group, rule.pattern):
                return rule.margin_ms
        return self.margin_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Everything one file declares.

    Attributes:
        fields: Fields of formats that have one value in all names.
        topic_format: How the topics that users see are spelled, on all clusters alike.
        primary: Where schemas are registered at first; None if there is no registry.
        heartbeat_ms: How often every cluster sends a heartbeat to all others; None for never.
        web: Who may use what speaks HTTP; None for everybody who reaches it.
    """

    name: str
    clusters: tuple[ClusterSpec, ...]
    tree: Tree
    topics: Topics = Topics()
    retention: tuple[RetentionSpec, ...] = ()
    links: Links = Links()
    metrics: Ports | None = None
    control: ControlSpec | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    primary: ClusterName | None = None
    heartbeat_ms: int | None = None
    web: Web | None = None
    topic_format: str = IDENTITY
    offsets: OffsetSettings = OffsetSettings()
    placement: tuple[Placement, ...] = ()
    levels: Levels = Levels()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", MappingProxyType(dict(self.fields)))

    def placed_on(self, topic: str) -> tuple[ClusterName, ...]:
        """The clusters a topic is on, by the first rule that matches; in the order of the file."""
        for rule in self.placement:
            if fnmatchcase(topic, rule.topics) and topic not in _TRAVELLING:
                return self._ordered(rule.clusters)
        return tuple(cluster.name for cluster in self.clusters)

    def wants(self, topic: str, cluster: str) -> bool:
        """Whether records of `topic` that others publish are to be on a cluster."""
        return self.topics.wants(topic) and cluster in self.placed_on(topic)

    def retained(self, topic: str) -> RetentionSpec | None:
        """The rule of what stores need not keep of a topic; None if they keep all."""
        rules = (one for one in self.retention if one.covers(topic))
        return next(rules, None)

    def must_have(self, topic: str, cluster: str) -> bool:
        """Whether stores of others hold a topic's records as long as a cluster lacks them."""
        rule = self.retained(topic)
        return rule is not None and rule.holds and self.wants(topic, cluster)

    def carries(self, topic: str, span: tuple[ClusterName, ...]) -> bool:
        """Whether `topic` is copied, and is on exactly these clusters."""
        return self.topics.copies(topic) and self.placed_on(topic) == span

    @property
    def spans(self) -> tuple[tuple[ClusterName, ...], ...]:
        """Every set of clusters that topics are on, all clusters first."""
        everywhere = tuple(cluster.name for cluster in self.clusters)
        placed = (self._ordered(rule.clusters) for rule in self.placement)
        return tuple(dict.fromkeys((everywhere, *placed)))

    def topics_on(self, span: tuple[ClusterName, ...]) -> str:
        """The patterns placed on exactly these clusters, for people; empty for all clusters."""
        if len(span) == len(self.clusters):
            return ""
        rules = (rule.topics for rule in self.placement if self._ordered(rule.clusters) == span)
        return ", ".join(dict.fromkeys(rules))

    def _ordered(self, names: tuple[ClusterName, ...]) -> tuple[ClusterName, ...]:
        return tuple(cluster.name for cluster in self.clusters if cluster.name in names)

    def cluster(self, name: str) -> ClusterSpec:
        """Return the cluster of this name.

        Raises:
            KeyError: There is none.
        """
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise KeyError(name)


def host_and_port(endpoint: str) -> tuple[str, int]:
    """The parts of a well-formed endpoint; a host that is an IPv6 address keeps its brackets."""
    host, _, port = endpoint.rpartition("://")[2].rpartition(":")
    return host, int(port)


def leaves(tree: Tree) -> Iterator[ClusterName]:
    """Yield the clusters of a tree, in the order of the file."""
    if isinstance(tree, Branch):
        for child in tree.children:
            yield from leaves(child)
    else:
        yield tree


def branches(tree: Tree) -> Iterator[Branch]:
    """Yield the branches of a tree, each before those below it."""
    if isinstance(tree, Branch):
        yield tree
        for child in tree.children:
            yield from branches(child)


def restricted(tree: Tree, names: Container[ClusterName]) -> Tree | None:
    """The tree over some of its clusters: a branch with one child left gives way to it."""
    if not isinstance(tree, Branch):
        return tree if tree in names else None
    children = tuple(
        kept for child in tree.children if (kept := restricted(child, names)) is not None
    )
    if len(children) > 1:
        return Branch(level=tree.level, children=children)
    return children[0] if children else None
