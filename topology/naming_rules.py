"""What formats and registries must hold, so that no two names ever become one.

Any cluster with a registry may become the primary, so a name must survive the way from each of them
to each other: all formats have the same fields, apart from those with one value in the whole file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.errors import Problem, below, short
from topology.formats import IDENTITY, TOPIC, is_field, is_value, parse_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from topology.model import RetentionSpec, Topology

REGISTRIES_ID_MAX = 256
"""The ids of schemas have room for so many clusters that give some."""


def read_format(value: object, path: str, complain: Callable[[str, str, str], None]) -> str:
    """Return the text of a format; empty if it is none, which is complained of."""
    if not isinstance(value, str):
        complain(path, f"{short(value)} is not a format", 'write it like "{topic}"')
        return ""
    try:
        parse_format(value)
    except ValueError as error:
        hint = "fields in braces, other characters between them: {tenant}-{topic}"
        complain(path, f"{short(value)} is not a format: {error}", hint)
        return ""
    return value


def read_fields(
    values: object, path: str, complain: Callable[[str, str, str], None]
) -> dict[str, str]:
    """Return the values of fields that have one; what cannot be used is complained of."""
    if not isinstance(values, dict):
        complain(path, f"{short(values)} is not a mapping", "field: value")
        return {}
    good: dict[str, str] = {}
    for name, value in values.items():
        where = below(path, name)
        if not is_field(name) or name == TOPIC:
            hint = "any other field that a format has in braces may"
            complain(where, f"field {short(name)} cannot have one value", hint)
        elif not isinstance(value, str) or not is_value(value):
            hint = "letters, digits, '.' and '_', at most 63"
            complain(where, f"{short(value)} is not a field's value", hint)
        else:
            good[name] = value
    return good


def naming_problems(topology: Topology) -> Iterator[Problem]:
    """Yield what is wrong with formats, registries and retention of what they keep."""
    yield from _formats(topology)
    yield from _registries(topology)
    yield from _retention(topology)


def varying_fields(topology: Topology, text: str) -> set[str]:
    """The fields of a format that may have more than one value."""
    return set(parse_format(text).fields) - topology.fields.keys()


def _formats(topology: Topology) -> Iterator[Problem]:
    varying = {
        f"$.clusters[{index}].subject_format": varying_fields(topology, cluster.subject_format)
        for index, cluster in enumerate(topology.clusters)
        if cluster.registry and cluster.subject_format
    }
    if topology.topic_format not in ("", IDENTITY):
        varying["$.topic_format"] = varying_fields(topology, topology.topic_format)
    everywhere: set[str] = set().union(*varying.values())
    for path, fields in varying.items():
        missing = sorted(everywhere - fields)
        if missing:
            named = ", ".join(f"{{{field}}}" for field in missing)
            yield Problem(
                path,
                f"names of other formats that differ in {named} only would become one here",
                f"add {named}, or give one value to it under $.fields",
            )


def _registries(topology: Topology) -> Iterator[Problem]:
    names = [cluster.name for cluster in topology.clusters if cluster.registry]
    for index, cluster in enumerate(topology.clusters):
        path = f"$.clusters[{index}]"
        if cluster.registry == "" and cluster.subject_format not in ("", IDENTITY):
            message = f"cluster {cluster.name!r} has no registry whose subjects it could spell"
            yield Problem(f"{path}.subject_format", message, "add registry, or take it out")
        if cluster.registry and cluster.id > REGISTRIES_ID_MAX:
            message = f"id {cluster.id} of a cluster with a registry is above {REGISTRIES_ID_MAX}"
            yield Problem(f"{path}.id", message, "each gives schemas ids of ranges of its own")
    primary = topology.primary
    if primary is None and names:
        message = "registries are declared, and none is the first primary"
        yield Problem("$.schemas", message, f"schemas: {{primary: {names[0]}}}")
    if primary and primary not in names:
        hint = f"choose from {', '.join(names)}" if names else "add registry to the cluster"
        yield Problem("$.schemas.primary", f"{primary!r} is no cluster with a registry", hint)


def _retention(topology: Topology) -> Iterator[Problem]:
    for index, rule in enumerate(topology.retention):
        if rule.topics.startswith("_"):
            yield Problem(
                f"$.retention[{index}].topics",
                f"{rule.topics!r} is for topics of the clusters themselves, schemas for instance",
                "what they hold is needed for ever: take the rule out",
            )
        yield from _hold(topology, rule, f"$.retention[{index}]")


def _hold(topology: Topology, rule: RetentionSpec, path: str) -> Iterator[Problem]:
    bounds = (rule.hold_age_s, rule.age_s, "age_s"), (rule.hold_bytes, rule.bytes_max, "bytes")
    for bound, own, name in bounds:
        if bound is not None and (own is None or bound <= own):
            message = f"what clusters lack is kept beyond {name}, so hold_{name} has to be above it"
            yield Problem(f"{path}.hold_{name}", message, f"raise it, or add {name}")
    alone = [one.name for one in topology.clusters if not one.controllers]
    if rule.holds and alone:
        message = f"nobody would tell stores of {', '.join(alone)} what clusters lack"
        yield Problem(path, message, "add controllers to these clusters, or take the hold out")
