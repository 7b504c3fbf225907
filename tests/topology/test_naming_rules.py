from __future__ import annotations

from dataclasses import replace

import pytest

from topology.decode import decode
from topology.formats import parse_format
from topology.model import ControllerSpec, RetentionSpec
from topology.naming_rules import naming_problems
from topology.testing import topology_of, tree_of

FULL = "{tenant}-{instance}-{environment}-{topic}"


def with_registries(*formats, primary="c1", fields=None):
    """Clusters with registries that spell subjects so; an empty format: no registry."""
    topology = topology_of(tree_of((1, *(f"c{n}" for n in range(1, max(2, len(formats)) + 1)))))
    clusters = [
        replace(cluster, registry=f"http://127.0.0.1:{7_000 + cluster.id}", subject_format=form)
        if form
        else cluster
        for cluster, form in zip(topology.clusters, formats, strict=True)
    ]
    return replace(topology, clusters=tuple(clusters), primary=primary, fields=fields or {})


def told(topology):
    return [(problem.path, problem.message) for problem in naming_problems(topology)]


def test_formats_with_the_same_fields_may_spell_them_as_they_like():
    assert told(with_registries(FULL, "{environment}/{instance}/x{tenant}-{topic}")) == []
    assert told(with_registries("{topic}", "", primary="c1")) == []
    assert told(with_registries("", "", primary=None)) == []


def test_a_format_that_misses_a_field_is_refused():
    (problem,) = naming_problems(with_registries(FULL, "{tenant}-{environment}-{topic}"))
    assert problem.path == "$.clusters[1].subject_format"
    assert problem.message == (
        "names of other formats that differ in {instance} only would become one here"
    )
    assert "$.fields" in problem.hint


def test_it_is_refused_wherever_the_primary_is():
    topology = with_registries("{topic}", FULL, primary="c1")
    assert [path for path, _ in told(topology)] == ["$.clusters[0].subject_format"]


def test_a_field_with_one_value_may_be_left_out():
    topology = with_registries(
        FULL, "{tenant}-{environment}-{topic}", fields={"instance": "prod", "unused": "x"}
    )
    assert told(topology) == []
    assert set(parse_format(FULL).fields) - topology.fields.keys() == {
        *("tenant", "environment", "topic")
    }


def test_topics_have_the_fields_of_subjects_if_they_have_any():
    topology = with_registries(FULL, FULL)
    assert told(topology) == []
    assert told(replace(topology, topic_format=FULL)) == []
    found = told(replace(topology, topic_format="{tenant}-{topic}"))
    assert [path for path, _ in found] == ["$.topic_format"]


def test_the_primary_must_be_named_and_have_a_registry():
    assert told(with_registries("{topic}", "", primary=None)) == [
        ("$.schemas", "registries are declared, and none is the first primary")
    ]
    assert told(with_registries("{topic}", "", primary="c2")) == [
        ("$.schemas.primary", "'c2' is no cluster with a registry")
    ]


def test_a_format_without_a_registry_and_an_id_too_large_are_refused():
    topology = with_registries("{topic}", "")
    clusters = (
        replace(topology.clusters[0], id=257),
        replace(topology.clusters[1], subject_format="x{topic}"),
    )
    assert [path for path, _ in told(replace(topology, clusters=clusters))] == [
        "$.clusters[0].id",
        "$.clusters[1].subject_format",
    ]


def test_no_retention_of_what_clusters_keep_for_themselves():
    rules = (RetentionSpec(topics="*", age_s=1), RetentionSpec(topics="_schemas", age_s=1))
    assert told(replace(with_registries("", "", primary=None), retention=rules)) == [
        (
            "$.retention[1].topics",
            "'_schemas' is for topics of the clusters themselves, schemas for instance",
        )
    ]


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ({"age_s": 5, "hold_age_s": 5}, "hold_age_s"),
        ({"bytes_max": 5, "hold_age_s": 5}, "hold_age_s"),
        ({"bytes_max": 5, "hold_bytes": 4}, "hold_bytes"),
        ({"age_s": 5, "hold_bytes": 9}, "hold_bytes"),
    ],
)
def test_a_hold_is_above_the_bound_that_it_is_beside(rule, key):
    topology = controlled(RetentionSpec(topics="*", **rule))
    assert [path for path, _ in told(topology)] == [f"$.retention[0].{key}"]


def test_a_hold_needs_controllers_of_every_cluster():
    rule = RetentionSpec(topics="*", age_s=5, bytes_max=5, hold_age_s=6, hold_bytes=6)
    assert told(controlled(rule)) == []
    alone = replace(with_registries("", "", primary=None), retention=(rule,))
    assert told(alone) == [
        ("$.retention[0]", "nobody would tell stores of c1, c2 what clusters lack")
    ]


def controlled(rule):
    topology = with_registries("", "", primary=None)
    clusters = tuple(
        replace(one, controllers=(ControllerSpec(metrics="127.0.0.1:1"),))
        for one in topology.clusters
    )
    return replace(topology, clusters=clusters, retention=(rule,))


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        ({"clusters": [{"subject_format": 7}]}, "$.clusters[0].subject_format", "7 is not a"),
        ({"clusters": [{"subject_format": "{a}"}]}, "$.clusters[0].subject_format", "{topic} is"),
        ({"clusters": [{"registry": "tcp://h:1"}]}, "$.clusters[0].registry", "'tcp://h:1' is"),
        ({"topic_format": "{a}"}, "$.topic_format", "{topic} is"),
        ({"fields": 7}, "$.fields", "7 is not a mapping"),
        ({"fields": {"topic": "x"}}, "$.fields.topic", "field 'topic' cannot have one value"),
        ({"fields": {"a-b": "x"}}, "$.fields.a-b", "field 'a-b' cannot have one value"),
        ({"fields": {"tenant": "a-b"}}, "$.fields.tenant", "'a-b' is not a field's value"),
        ({"schemas": {}}, "$.schemas", "key 'primary' is missing"),
        ({"schemas": {"primary": "-"}}, "$.schemas.primary", "'-' is not a name"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(values, path, message):
    _, problems = decode(values)
    assert any(one.path == path and message in one.message for one in problems), problems


def test_how_topics_are_spelled_is_read_and_left_out_means_as_users_see_them():
    assert decode({"topic_format": "t-{topic}"})[0].topic_format == "t-{topic}"
    assert decode({})[0].topic_format == "{topic}"
