"""What a well-formed topology must also hold to be right.

That levels strictly increase towards the root is what makes the algorithm deliver every record to
every cluster exactly once. A wrong labelling never loops, but it loses or duplicates.

The topology may have holes, empty texts and zeros where the file could not be read: those have been
complained of, and no rule speaks of them or of what follows from them.

At the end stand the rules about who gets what: clusters that only receive, topics on some clusters,
retired levels.
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from ipaddress import ip_address
from typing import TYPE_CHECKING

from topology.addresses import normal_host, socket_fault
from topology.errors import Problem
from topology.model import Branch, Topology, Tree, branches, host_and_port, leaves, restricted
from topology.naming_rules import naming_problems
from topology.plan import plan
from topology.replica_rules import replica_places, replica_problems
from topology.store_rules import disk_of, store_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import ClusterName


_PORT_MAX = 65_535
_NAMES_SHOWN_MAX = 8
_EVERY_HOST = {"0.0.0.0", "[::]"}  # noqa: S104 - to refuse it, nothing is bound here


def problems_of(topology: Topology) -> list[Problem]:
    """Return everything that is wrong with a topology, none if it may be used."""
    return [
        *_names(topology),
        *_levels(topology.tree, "$.tree", 0),
        *_leaves(topology),
        *problems_of_reach(topology),
        *_targets(topology),
        *_levels_of_links(topology),
        *_hosts(topology),
        *_endpoints(topology),
        *_directories(topology),
        *_control(topology),
        *_security(topology),
        *_gateways(topology),
        *_deliveries(topology),
        *naming_problems(topology),
        *replica_problems(topology),
        *store_problems(topology),
    ]


def _security(topology: Topology) -> Iterator[Problem]:
    for index, cluster in enumerate(topology.clusters):
        if cluster.security is not None and cluster.insecure:
            yield Problem(
                f"$.clusters[{index}].insecure",
                f"cluster {cluster.name!r} has keys and is insecure",
                "take one of them out",
            )
        places = (*cluster.towers, *(store.query for store in cluster.stores))
        hosts = (cluster.host, *(host_and_port(place)[0] for place in places if place))
        open_to = next((host for host in hosts if _machine(host) != _machine("")), None)
        if open_to is not None and cluster.security is None and not cluster.insecure:
            yield Problem(
                f"$.clusters[{index}]",
                f"anybody who reaches {open_to} could read and write {cluster.name!r}",
                "give it keys (security: …, dafka keys), or say insecure: true if the network "
                "keeps strangers out",
            )


def _gateways(topology: Topology) -> Iterator[Problem]:
    for index, cluster in enumerate(topology.clusters):
        for number, gateway in enumerate(cluster.gateways):
            path = f"$.clusters[{index}].gateways[{number}]"
            if not gateway.listen:
                continue
            host = host_and_port(gateway.endpoint)[0]
            open_to_all = not (gateway.users or cluster.insecure)
            if _machine(host) != _machine("") and open_to_all:
                yield Problem(
                    f"{path}.listen",
                    f"anybody who reaches {gateway.listen} could write to {cluster.name!r}",
                    "name who may log in: users: keys/kafka.toml (dafka keys NAME --kafka)",
                )
            if host in _EVERY_HOST and not gateway.advertised_listener:
                message = f"{gateway.listen} is on every interface"
                hint = "say where clients reach it: advertised_listener: HOST:PORT"
                yield Problem(f"{path}.listen", message, hint)
            told = gateway.advertised_listener
            if told and host_and_port(f"tcp://{told}")[0] in _EVERY_HOST:
                message = f"{told} is every interface"
                yield Problem(f"{path}.advertised_listener", message, "name one that is reached")


def _deliveries(topology: Topology) -> Iterator[Problem]:
    """What has to hear producers themselves is not in a cluster whose nodes hear stores only."""
    for index, cluster in enumerate(topology.clusters):
        if cluster.delivery != "stores":
            continue
        others = []
        if cluster.wire != "rfc46":
            others.append(f"programs of wire {cluster.wire}")
        elif cluster.classic:
            others.append("peers that know no batches (classic)")
        if cluster.gateways:
            others.append("gateways")
        for what in others:
            yield Problem(
                f"$.clusters[{index}].delivery",
                f"{what} have to hear producers of {cluster.name!r}, not stores only",
                "say delivery: direct, and delivery=stores to the producers and consumers that "
                "are many",
            )


def _names(topology: Topology) -> Iterator[Problem]:
    names = Counter(cluster.name for cluster in topology.clusters)
    ids = Counter(cluster.id for cluster in topology.clusters)
    for index, cluster in enumerate(topology.clusters):
        if cluster.name and names[cluster.name] > 1:
            yield Problem(
                f"$.clusters[{index}].name",
                f"cluster {cluster.name!r} is declared {names[cluster.name]} times",
                "a name must be unique",
            )
        if cluster.id and ids[cluster.id] > 1:
            yield Problem(
                f"$.clusters[{index}].id",
                f"id {cluster.id} is used {ids[cluster.id]} times",
                "an id names a record's origin and must be unique",
            )


def _levels(tree: Tree, path: str, above: int) -> Iterator[Problem]:
    if not isinstance(tree, Branch):
        return
    if above and tree.level >= above:
        yield Problem(
            f"{path}.level",
            f"level {tree.level} is not below {above}, the level of the branch above it",
            "levels must strictly increase towards the root",
        )
    for index, child in enumerate(tree.children):
        yield from _levels(child, f"{path}.children[{index}]", tree.level)


def _leaf_paths(tree: Tree, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, Branch):
        for index, child in enumerate(tree.children):
            yield from _leaf_paths(child, f"{path}.children[{index}]")
    else:
        yield tree, path


def _leaves(topology: Topology) -> Iterator[Problem]:
    declared = [cluster.name for cluster in topology.clusters]
    seen: dict[str, str] = {}
    for name, path in _leaf_paths(topology.tree, "$.tree"):
        if name and name not in declared and declared and all(declared):
            yield Problem(path, f"cluster {name!r} is not declared", _suggestion(name, declared))
        if name and name in seen:
            yield Problem(
                path, f"cluster {name!r} stands in the tree twice", f"also at {seen[name]}"
            )
        seen.setdefault(name, path)
    for index, cluster in enumerate(topology.clusters):
        if cluster.name and cluster.name not in seen and "" not in seen:
            yield Problem(
                f"$.clusters[{index}].name",
                f"cluster {cluster.name!r} is missing in the tree",
                "add it under $.tree",
            )


def _levels_of_links(topology: Topology) -> Iterator[Problem]:
    known = sorted({branch.level for branch in branches(topology.tree)})
    links = topology.links
    for key, levels in (("shares", links.level_shares), ("compression", links.level_compression)):
        for level in levels:
            if level and level not in known:
                yield Problem(
                    f"$.links.{key}.{level}",
                    f"level {level} is not in the tree",
                    f"levels there: {', '.join(map(str, known))}",
                )


def _targets(topology: Topology) -> Iterator[Problem]:
    if "" in list(leaves(topology.tree)) or not all(
        branch.level for branch in branches(topology.tree)
    ):
        return
    for index, cluster in enumerate(topology.clusters):
        if cluster.targets and cluster.name in leaves(topology.tree):
            yield from _targets_of(topology, index)


def _targets_of(topology: Topology, index: int) -> Iterator[Problem]:
    cluster = topology.clusters[index]
    mute = {other.name for other in topology.clusters if other.receive_only}
    above = {
        branch.level: branch for branch in branches(topology.tree) if cluster.name in leaves(branch)
    }
    for level, names in cluster.targets.items():
        path = f"$.clusters[{index}].targets.{level}"
        if level not in above:
            if level:
                known = ", ".join(str(level) for level in sorted(above))
                message = f"level {level} is not above cluster {cluster.name!r}"
                yield Problem(path, message, f"above it: {known or 'none'}")
            continue
        reachable = [
            name
            for child in above[level].children
            if cluster.name not in leaves(child)
            for name in leaves(child)
        ]
        for position, name in enumerate(names):
            if name and name not in reachable:
                message = f"target {name!r} is not on the other side of level {level}"
                yield Problem(f"{path}[{position}]", message, _suggestion(name, reachable))
            if name and name in names[:position]:
                yield Problem(
                    f"{path}[{position}]", f"target {name!r} is listed twice", "keep the first"
                )
            if name in mute and _has_company(name, above[level], mute):
                message = f"target {name!r} only receives: it would not pass on what it gets"
                yield Problem(f"{path}[{position}]", message, "take one that sends")


def _has_company(name: ClusterName, branch: Branch, mute: set[ClusterName]) -> bool:
    """Whether a cluster stands beside one that sends, on its side of a branch."""
    sides = [list(leaves(child)) for child in branch.children]
    return any(name in side and not mute.issuperset(side) for side in sides)


def _suggestion(name: str, known: list[str] | list[ClusterName]) -> str:
    """The name that may have been meant, else a few that there are."""
    near = get_close_matches(name, known, 1, 0.8)
    if near:
        return f"did you mean {near[0]!r}?"
    shown = ", ".join(known[:_NAMES_SHOWN_MAX])
    rest = len(known) - _NAMES_SHOWN_MAX
    return f"choose from {shown}" + (f" and {rest} more" if rest > 0 else "")


def _hosts(topology: Topology) -> Iterator[Problem]:
    """Other nodes are told to connect to these, so they must name one machine."""
    hint = "other nodes connect to it: name one interface"
    for index, cluster in enumerate(topology.clusters):
        for key, host in (("host", cluster.host), ("advertise", cluster.advertise)):
            if host in _EVERY_HOST:
                yield Problem(f"$.clusters[{index}].{key}", f"{host} is every interface", hint)
    for endpoint, path in _declared(topology):
        if host_and_port(endpoint)[0] in _EVERY_HOST and ".gateways[" not in path:
            yield Problem(path, f"{endpoint} is on every interface", hint)


def _endpoints(topology: Topology) -> Iterator[Problem]:
    taken: dict[int, list[tuple[str, str]]] = {}
    for endpoint, path in _declared(topology):
        host, port = host_and_port(endpoint)
        publishes = ".towers[" in path
        for number in (port, port + 1) if publishes else (port,):
            by = _holder(taken, host, number)
            if by:
                what = f"port {number} of {host}"
                note = ", where this tower publishes," if number != port else ""
                yield Problem(path, f"{what}{note} is taken", f"by {by}")
            note = " (a tower also takes the next port)" if number != port else ""
            taken.setdefault(number, []).append((normal_host(host), path + note))
    yield from _metrics(topology, taken)


def _metrics(topology: Topology, taken: dict[int, list[tuple[str, str]]]) -> Iterator[Problem]:
    ports, count = topology.metrics, process_count(topology)
    if ports is None or not ports.first_port or not ports.host:
        return
    path = "$.metrics.first_port"
    first, last = ports.first_port, ports.first_port + count - 1
    what = f"{count} processes serve metrics on ports {first} to {last}"
    if last > _PORT_MAX:
        yield Problem(path, f"{what}, beyond {_PORT_MAX}", "begin lower")
    for port in sorted(taken):
        by = _holder(taken, ports.host, port)
        if by and first <= port <= last:
            yield Problem(path, f"{what}; {port} is taken", f"by {by}")
            break


def _holder(taken: dict[int, list[tuple[str, str]]], host: str, port: int) -> str:
    """What has a port on a host already; empty if nothing."""
    for other, path in taken.get(port, ()):
        if other == normal_host(host) or other in _EVERY_HOST or normal_host(host) in _EVERY_HOST:
            return path
    return ""


def _declared(topology: Topology) -> Iterator[tuple[str, str]]:
    """Every endpoint in the file, with its path."""
    for index, cluster in enumerate(topology.clusters):
        for number, tower in enumerate(cluster.towers):
            if tower:
                yield tower, f"$.clusters[{index}].towers[{number}]"
        for number, store in enumerate(cluster.stores):
            if store.query:
                yield store.query, f"$.clusters[{index}].stores[{number}].query"
        if cluster.registry:
            yield cluster.registry, f"$.clusters[{index}].registry"
        for number, gateway in enumerate(cluster.gateways):
            if gateway.listen:
                yield gateway.endpoint, f"$.clusters[{index}].gateways[{number}].listen"
        for key, place in replica_places(cluster):
            yield f"tcp://{place}", f"$.clusters[{index}].{key}"


def process_count(topology: Topology) -> int:
    """How many processes of a topology have a port from `metrics`.

    Towers, stores, distributors, two for each registry (itself and its schema distributor), and
    gateways. Controllers and replicas have places of their own for metrics.
    """
    nodes = sum(
        len(cluster.towers)
        + len(cluster.stores)
        + 2 * bool(cluster.registry)
        + len(cluster.gateways)
        for cluster in topology.clusters
    )
    return nodes + distributor_count(topology)


def distributor_count(topology: Topology) -> int:
    """How many distributors a topology has.

    For each branch above each cluster that sends there are as many as its links have shares.
    """
    mute = {cluster.name for cluster in topology.clusters if cluster.receive_only}
    return sum(
        topology.links.shares_at(branch.level)
        for branch in branches(topology.tree)
        for name in leaves(branch)
        if name not in mute
    )


def _control(topology: Topology) -> Iterator[Problem]:
    control = topology.control
    if control is None or not control.directory:
        return
    sockets = [control.socket_path(one.name) for one in plan(topology).distributors]
    fault = socket_fault(max(sockets, key=len)) if sockets else None
    if fault is not None:
        yield Problem("$.control.directory", *fault)


def _directories(topology: Topology) -> Iterator[Problem]:
    taken: dict[tuple[str, str], str] = {}
    for index, cluster in enumerate(topology.clusters):
        for number, store in enumerate(cluster.stores):
            path = f"$.clusters[{index}].stores[{number}].data"
            if not (store.data and store.query):
                continue
            host, directory = disk_of(store)
            where = _machine(host), directory
            if where in taken:
                hint = f"by {taken[where]}: a store shares its directory with nobody"
                yield Problem(path, f"directory {store.data!r} is taken", hint)
            taken.setdefault(where, path)


def _machine(host: str) -> str:
    """All loopback addresses are one machine; of others nobody here knows."""
    host = normal_host(host) if host else "127.0.0.1"
    try:
        return "127.0.0.1" if ip_address(host.strip("[]")).is_loopback else host
    except ValueError:
        return host


def problems_of_reach(topology: Topology) -> list[Problem]:
    """Return what keeps a record from where it is to be."""
    return [
        *_retired(topology.tree, topology.levels.retired, "$.tree"),
        *_placement(topology),
        *_only_receiving(topology),
    ]


def _retired(tree: Tree, retired: tuple[int, ...], path: str) -> Iterator[Problem]:
    if not isinstance(tree, Branch):
        return
    if tree.level and tree.level in retired:
        yield Problem(
            f"{path}.level",
            f"level {tree.level} is retired: flags of another branch stand under it in the logs",
            "take one that this epoch has never had, or begin a new epoch",
        )
    for index, child in enumerate(tree.children):
        yield from _retired(child, retired, f"{path}.children[{index}]")


def _placement(topology: Topology) -> Iterator[Problem]:
    declared = [cluster.name for cluster in topology.clusters]
    patterns: dict[str, int] = {}
    for index, rule in enumerate(topology.placement):
        path = f"$.placement[{index}]"
        if rule.topics in patterns:
            message = f"topics {rule.topics!r} are placed twice"
            yield Problem(
                f"{path}.topics", message, f"also at $.placement[{patterns[rule.topics]}]"
            )
        patterns.setdefault(rule.topics, index)
        for position, name in enumerate(rule.clusters):
            where = f"{path}.clusters[{position}]"
            if name and name not in declared and all(declared):
                yield Problem(where, f"cluster {name!r} is not declared", "see $.clusters")
            if name and name in rule.clusters[:position]:
                yield Problem(where, f"cluster {name!r} is listed twice", "keep the first")


def _only_receiving(topology: Topology) -> Iterator[Problem]:
    """Of several clusters on one side one must pass on what comes in."""
    mute = {cluster.name for cluster in topology.clusters if cluster.receive_only}
    declared = {cluster.name for cluster in topology.clusters}
    if not mute or "" in declared or not set(leaves(topology.tree)) <= declared:
        return
    for span, path in _spans(topology):
        tree = restricted(topology.tree, span)
        for branch in branches(tree) if tree is not None else ():
            names = list(leaves(branch))
            if mute.issuperset(names):
                yield Problem(
                    path,
                    f"clusters {', '.join(names)} only receive, so nothing passes between them",
                    "hang each beside a cluster that sends, or let one of them send",
                )
                break


def _spans(topology: Topology) -> Iterator[tuple[tuple[ClusterName, ...], str]]:
    yield tuple(cluster.name for cluster in topology.clusters), "$.tree"
    for index, rule in enumerate(topology.placement):
        yield rule.clusters, f"$.placement[{index}].clusters"
