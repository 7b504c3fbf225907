from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.decode import KEYS, OPTIONAL, REQUIRED, decode
from topology.model import (
    Branch,
    ClusterSpec,
    ControllerSpec,
    ControlSpec,
    GatewaySpec,
    Levels,
    Links,
    Placement,
    Ports,
    ReplicaSpec,
    RetentionSpec,
    Security,
    StoreSpec,
    Topics,
    Topology,
    Web,
)


def test_what_may_be_left_out_and_what_must_not_are_keys():
    assert {key for kind in KEYS.values() for key in kind} >= OPTIONAL
    assert all(key in KEYS[kind] for kind, key in REQUIRED)


RATES = {"bytes_per_s": 100_000, "records_per_s": 500}
GOOD = {
    "version": 1,
    "name": "two",
    "clusters": [
        {
            "name": "a",
            "id": 1,
            "host": "10.0.0.1",
            "advertise": "eu.example",
            "towers": ["tcp://10.0.0.1:17100"],
            "stores": [{"query": "tcp://10.0.0.1:17102", "data": "data/a"}],
            "targets": {1: ["b"]},
            "registry": "http://10.0.0.1:8081",
            "subject_format": "{tenant}-{topic}",
            "gateways": [
                {"listen": "10.0.0.1:9092", "users": "keys/kafka.toml"},
                {"listen": "[::]:9093", "advertised_listener": "kafka.example:9093"},
            ],
            "controllers": [{"metrics": "127.0.0.1:9301"}],
            "replicas": [{"listen": "10.0.0.1:9401", "metrics": "[::1]:9402"}],
        },
        {
            "name": "b",
            "id": 2,
            "receive_only": True,
            "towers": ["tcp://[::1]:17110", "tcp://localhost:17114"],
            "stores": [{"query": "tcp://node-b.example:17112", "data": "data/b"}],
        },
    ],
    "tree": {"level": 1, "children": ["a", "b"]},
    "levels": {"epoch": 2, "retired": [5]},
    "topics": {"include": ["orders-*"], "exclude": []},
    "placement": [{"topics": "orders-eu", "clusters": ["a"]}],
    "links": {
        "failover_after_ms": 2000,
        "failback": True,
        "repair_after_ms": 3000,
        "skip_overtaken": ["telemetry-*"],
        "shares": {1: 4},
        "compression": {1: "zstd"},
        **RATES,
    },
    "metrics": {"host": "127.0.0.2", "first_port": 17900},
    "control": {"directory": "/run/dafka"},
    "fields": {"tenant": "acme"},
    "schemas": {"primary": "a"},
    "heartbeat_ms": 250,
}

MISSING = object()

repeatable = settings(derandomize=True, deadline=None, max_examples=200)


def changed(*path_and_value):
    """A copy of `GOOD` with one value replaced, or taken out."""
    *path, last, value = path_and_value
    values = copy.deepcopy(GOOD)
    at = values
    for step in path:
        at = at[step]
    if value is MISSING:
        del at[last]
    else:
        at[last] = value
    return values


def told(values):
    return [(problem.path, problem.message, problem.hint) for problem in decode(values)[1]]


def test_every_key_becomes_its_field():
    topology, problems = decode(GOOD)
    assert problems == []
    assert topology == Topology(
        name="two",
        clusters=(
            ClusterSpec(
                name="a",
                id=1,
                host="10.0.0.1",
                advertise="eu.example",
                towers=("tcp://10.0.0.1:17100",),
                stores=(StoreSpec(query="tcp://10.0.0.1:17102", data="data/a"),),
                targets={1: ("b",)},
                registry="http://10.0.0.1:8081",
                subject_format="{tenant}-{topic}",
                gateways=(
                    GatewaySpec(listen="10.0.0.1:9092", users="keys/kafka.toml"),
                    GatewaySpec(listen="[::]:9093", advertised_listener="kafka.example:9093"),
                ),
                controllers=(ControllerSpec(metrics="127.0.0.1:9301"),),
                replicas=(ReplicaSpec(listen="10.0.0.1:9401", metrics="[::1]:9402"),),
            ),
            ClusterSpec(
                name="b",
                id=2,
                receive_only=True,
                host="127.0.0.1",
                towers=("tcp://[::1]:17110", "tcp://localhost:17114"),
                stores=(StoreSpec(query="tcp://node-b.example:17112", data="data/b"),),
            ),
        ),
        tree=Branch(level=1, children=("a", "b")),
        topics=Topics(include=("orders-*",), exclude=()),
        links=Links(
            failover_after_ms=2_000,
            failback=True,
            repair_after_ms=3_000,
            skip_overtaken=("telemetry-*",),
            level_shares={1: 4},
            level_compression={1: "zstd"},
            **RATES,
        ),
        metrics=Ports(host="127.0.0.2", first_port=17_900),
        control=ControlSpec(directory="/run/dafka"),
        fields={"tenant": "acme"},
        primary="a",
        heartbeat_ms=250,
        placement=(Placement(topics="orders-eu", clusters=("a",)),),
        levels=Levels(epoch=2, retired=(5,)),
    )


def test_without_topics_all_are_copied():
    topology, problems = decode(changed("topics", MISSING))
    assert (topology.topics, problems) == (Topics(include=("*",), exclude=()), [])


def test_what_stores_need_not_keep():
    rules = [
        {"topics": "logs-*", "age_s": 60, "hold_age_s": 90},
        {"topics": "*", "bytes": 7, "hold_bytes": 8},
    ]
    topology, problems = decode(changed("retention", rules))
    assert problems == []
    assert topology.retention == (
        RetentionSpec(topics="logs-*", age_s=60, hold_age_s=90),
        RetentionSpec(topics="*", bytes_max=7, hold_bytes=8),
    )


@pytest.mark.parametrize(
    ("rule", "path", "message"),
    [
        ({"topics": "x"}, "$.retention[0]", "nothing is said of how long to keep"),
        ({"age_s": 1}, "$.retention[0]", "key 'topics' is missing"),
        ({"topics": "", "age_s": 1}, "$.retention[0].topics", "'' is not a pattern"),
        ({"topics": "x", "age_s": 0}, "$.retention[0].age_s", "0 is out of range"),
        ({"topics": "x", "bytes": "1"}, "$.retention[0].bytes", "'1' is not a whole number"),
        ({"topics": "x", "hold_age_s": 1}, "$.retention[0]", "nothing is said of how long to keep"),
        ({"topics": "x", "hold_bytes": 0}, "$.retention[0].hold_bytes", "0 is out of range"),
    ],
)
def test_a_rule_that_cannot_be_used(rule, path, message):
    assert (path, message) in [found[:2] for found in told(changed("retention", [rule]))]


def test_how_durable_a_store_is():
    topology, problems = decode(changed("clusters", 0, "stores", 0, "durability", "os"))
    assert problems == []
    assert topology.clusters[0].stores[0].durability == "os"
    (problem,) = told(changed("clusters", 0, "stores", 0, "durability", "sometimes"))
    assert problem[0] == "$.clusters[0].stores[0].durability"


def test_slots_of_a_store_and_copies_of_a_cluster():
    values = changed("clusters", 0, "stores", 0, "slots", "0-99, 200-4095")
    values["clusters"][0]["copies"] = 2
    topology, problems = decode(values)
    assert not problems
    assert topology.clusters[0].copies == 2
    (store,) = topology.clusters[0].stores
    assert store.slots == (range(100), range(200, 4_096))
    assert store.share == pytest.approx(3_996 / 4_096)
    assert topology.clusters[0].shared_out
    assert not decode(GOOD)[0].clusters[0].shared_out
    for slots in ("0-4096", 7, "9-3"):
        (problem,) = told(changed("clusters", 0, "stores", 0, "slots", slots))
        assert problem[0] == "$.clusters[0].stores[0].slots"
        assert "is no range of slots" in problem[1]
    (problem,) = told(changed("clusters", 0, "copies", 17))
    assert problem == ("$.clusters[0].copies", "17 is out of range", "1 to 16")


KEYS_OF_A = {"access": "k/access.toml", "cluster_key": "k/c.secret", "key": "k/d.secret"}


def test_a_cluster_may_have_keys_or_be_insecure():
    assert decode(GOOD)[0].clusters[0].security is None
    secured = decode(changed("clusters", 0, "security", KEYS_OF_A))[0].clusters[0]
    assert secured.security == Security(**KEYS_OF_A)
    assert decode(changed("clusters", 0, "insecure", True))[0].clusters[0].insecure


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("insecure", "yes", "insecure"),
        ("security", True, "security"),
        ("security", KEYS_OF_A | {"key": ""}, "security.key"),
        ("security", KEYS_OF_A | {"access": 5}, "security.access"),
        ("security", KEYS_OF_A | {"mode": "curve"}, "security.mode"),
    ],
)
def test_keys_that_cannot_be_used(key, value, path):
    problems = told(changed("clusters", 0, key, value))
    assert {where for where, _, _ in problems} == {f"$.clusters[0].{path}"}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (5, "gateways"),
        ([5], "gateways[0]"),
        ([{}], "gateways[0]"),
        ([{"listen": 9092}], "gateways[0].listen"),
        ([{"listen": "9092"}], "gateways[0].listen"),
        ([{"listen": "a:0"}], "gateways[0].listen"),
        ([{"listen": "a:1", "advertised_listener": "b"}], "gateways[0].advertised_listener"),
        ([{"listen": "a:1", "users": 5}], "gateways[0].users"),
        ([{"listen": "a:1", "port": 1}], "gateways[0].port"),
    ],
)
def test_gateways_that_cannot_be_used(value, path):
    problems = told(changed("clusters", 0, "gateways", value))
    assert {where for where, _, _ in problems} == {f"$.clusters[0].{path}"}


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("controllers", 2, "controllers"),
        ("controllers", [{}], "controllers[0]"),
        ("controllers", [{"metrics": "9301"}], "controllers[0].metrics"),
        ("controllers", [{"metrics": "a:1", "listen": "2"}], "controllers[0].listen"),
        ("controllers", [{"metrics": "a:1", "web": "a:2"}], "controllers[0].web"),
        ("replicas", [{"metrics": "a:1"}], "replicas[0]"),
        ("replicas", [{"listen": "a:1"}], "replicas[0]"),
        ("replicas", [{"listen": "a:0", "metrics": "a:1"}], "replicas[0].listen"),
    ],
)
def test_controllers_and_replicas_that_cannot_be_used(key, value, path):
    problems = told(changed("clusters", 0, key, value))
    assert {where for where, _, _ in problems} == {f"$.clusters[0].{path}"}


def test_what_speaks_http_may_have_tokens():
    assert decode(GOOD)[0].web is None
    declared = {"access": "keys/web.toml", "token": "keys/ops.token"}
    assert decode(changed("web", declared))[0].web == Web(**declared)
    for value, path in [(5, "$.web"), ({"access": "a"}, "$.web"), ({"x": 1}, "$.web.x")]:
        assert path in {where for where, _, _ in told(changed("web", value))}
    registry = "https://127.0.0.1:8081"
    secure = decode(changed("clusters", 0, "registry", registry))[0].clusters[0]
    assert secure.registry == registry


def test_without_metrics_nobody_serves_them():
    topology, problems = decode(changed("metrics", MISSING))
    assert (topology.metrics, problems) == (None, [])


@pytest.mark.parametrize(
    "path",
    [
        ("clusters", 0, "host"),
        ("clusters", 0, "advertise"),
        ("clusters", 0, "targets"),
        ("topics", "include"),
        ("topics", "exclude"),
        ("metrics", "host"),
    ],
)
def test_what_may_be_left_out_below(path):
    assert told(changed(*path, MISSING)) == []


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (("version",), "$"),
        (("name",), "$"),
        (("clusters",), "$"),
        (("tree",), "$"),
        (("clusters", 0, "name"), "$.clusters[0]"),
        (("clusters", 0, "id"), "$.clusters[0]"),
        (("clusters", 1, "towers"), "$.clusters[1]"),
        (("clusters", 1, "stores"), "$.clusters[1]"),
        (("clusters", 0, "stores", 0, "query"), "$.clusters[0].stores[0]"),
        (("clusters", 0, "stores", 0, "data"), "$.clusters[0].stores[0]"),
        (("tree", "level"), "$.tree"),
        (("tree", "children"), "$.tree"),
        (("metrics", "first_port"), "$.metrics"),
    ],
)
def test_what_must_not_be_left_out(path, where):
    ((found, message, hint),) = told(changed(*path, MISSING))
    assert (found, message) == (where, f"key {path[-1]!r} is missing")
    assert hint


@pytest.mark.parametrize(
    ("change", "path", "message", "hint"),
    [
        (("nme", 1), "$.nme", "unknown key 'nme'", "did you mean 'name'?"),
        (("zzzzz", 1), "$.zzzzz", "unknown key 'zzzzz'", "version, name, clusters"),
        (("clusters", 0, "tower", []), "$.clusters[0].tower", "'tower'", "'towers'?"),
        (("clusters", 0, "stores", 0, "dta", 1), "$.clusters[0].stores[0].dta", "'dta'", "'data'?"),
        (("tree", "child", 1), "$.tree.child", "'child'", "'children'?"),
        (("topics", "includes", 1), "$.topics.includes", "'includes'", "'include'?"),
        (("metrics", "firstport", 1), "$.metrics.firstport", "'firstport'", "'first_port'?"),
        (
            ("control", "first_port", 1),
            "$.control.first_port",
            "'first_port'",
            "control: {directory",
        ),
        (("control", "directory", ""), "$.control.directory", "'' is not a file's path", ""),
        ((7, 1), "$.7", "unknown key 7", "version"),
        (("version", 2), "$.version", "version 2", "write 1"),
        (("version", True), "$.version", "version True", "write 1"),
        (("version", "1"), "$.version", "version '1'", "write 1"),
        (("name", 7), "$.name", "7 is not a name", "letter or digit"),
        (("name", ""), "$.name", "'' is not a name", "letter or digit"),
        (("name", "a" * 64), "$.name", "is not a name", "at most 63"),
        (("name", "-a"), "$.name", "'-a' is not a name", "begin with"),
        (("name", "a\n"), "$.name", r"'a\n' is not a name", "letters"),
        (("name", "é"), "$.name", "'é' is not a name", "letters"),
        (("clusters", {}), "$.clusters", "{} is not a list", "[ ]"),
        (("clusters", []), "$.clusters", "there is no cluster", "at least one"),
        (("clusters", 0, "a"), "$.clusters[0]", "'a' is not a mapping", "keys: name, id"),
        (("clusters", 0, "id", True), "$.clusters[0].id", "True is not a whole", "1 to 65535"),
        (("clusters", 0, "id", "3"), "$.clusters[0].id", "'3' is not a whole", "1 to 65535"),
        (("clusters", 0, "id", 1.0), "$.clusters[0].id", "1.0 is not a whole", "1 to 65535"),
        (("clusters", 0, "id", None), "$.clusters[0].id", "None is not a whole", "1 to 65535"),
        (("clusters", 0, "id", 0), "$.clusters[0].id", "0 is out of range", "1 to 65535"),
        (("clusters", 0, "id", 65_536), "$.clusters[0].id", "65536 is out", "1 to 65535"),
        (("clusters", 0, "host", ""), "$.clusters[0].host", "'' is not a host", "IPv4"),
        (("clusters", 0, "advertise", "a:1"), "$.clusters[0].advertise", "'a:1'", "brackets"),
        (("clusters", 0, "host", "a:1"), "$.clusters[0].host", "'a:1'", "brackets"),
        (("clusters", 0, "host", "1.2.3"), "$.clusters[0].host", "'1.2.3'", "IPv4"),
        (("clusters", 0, "host", "::1"), "$.clusters[0].host", "'::1'", "brackets"),
        (("clusters", 0, "towers", []), "$.clusters[0].towers", "list is empty", "at least one"),
        (("clusters", 0, "stores", []), "$.clusters[0].stores", "list is empty", "at least one"),
        (("clusters", 0, "towers", "t"), "$.clusters[0].towers", "'t' is not a list", "[ ]"),
        (
            ("clusters", 0, "stores", 0, "data", ""),
            "$.clusters[0].stores[0].data",
            "'' is not a directory's path",
            "",
        ),
        (("clusters", 0, "targets", []), "$.clusters[0].targets", "[] is not a mapping", "level:"),
        (
            ("clusters", 0, "targets", {"1": ["b"]}),
            "$.clusters[0].targets.1",
            "'1' is not a whole number",
            "1 to 63",
        ),
        (("clusters", 0, "targets", {64: ["b"]}), "$.clusters[0].targets.64", "64 is", "1 to 63"),
        (("clusters", 0, "targets", {1: []}), "$.clusters[0].targets.1", "empty", "at least one"),
        (("clusters", 0, "targets", {1: "b"}), "$.clusters[0].targets.1", "not a list", "[ ]"),
        (("clusters", 0, "targets", {1: [2]}), "$.clusters[0].targets.1[0]", "2 is not", "letter"),
        (("tree", 7), "$.tree", "7 is not a name", "letter"),
        (("tree", "level", 0), "$.tree.level", "0 is out of range", "1 to 63"),
        (("tree", "level", 64), "$.tree.level", "64 is out of range", "1 to 63"),
        (("tree", "level", True), "$.tree.level", "True is not a whole number", "1 to 63"),
        (("tree", "level", "30s"), "$.tree.level", "'30s' is not a whole", "63, without a unit"),
        (("tree", "children", ["a"]), "$.tree.children", "it has 1", "in the branch's place"),
        (("tree", "children", []), "$.tree.children", "it has 0", "in the branch's place"),
        (("tree", "children", "ab"), "$.tree.children", "'ab' is not a list", "[ ]"),
        (("tree", "children", 1, 7), "$.tree.children[1]", "7 is not a name", "letter"),
        (("topics", []), "$.topics", "[] is not a mapping", "include, exclude"),
        (("topics", "include", "*"), "$.topics.include", "'*' is not a list", "[ ]"),
        (("topics", "include", [""]), "$.topics.include[0]", "'' is not a pattern", "orders-*"),
        (("topics", "exclude", [7]), "$.topics.exclude[0]", "7 is not a pattern", "orders-*"),
        (("metrics", None), "$.metrics", "None is not a mapping", "first_port"),
        (("links", "failback", 1), "$.links.failback", "1 is neither true nor false", ""),
        (("links", "bytes_per_s", 1), "$.links.bytes_per_s", "1 is out of range", "65536 to"),
        (("links", "shares", 0), "$.links.shares", "0 is out of range", "1 to 64"),
        (("links", "shares", {1: 65}), "$.links.shares.1", "65 is out of range", "1 to 64"),
        (("links", "shares", {"a": 2}), "$.links.shares.a", "'a' is not a whole", "1 to 63"),
        (("links", "compression", "zip"), "$.links.compression", "'zip' is not", "none or gzip"),
        (("links", "compression", {1: 3}), "$.links.compression.1", "3 is not known", "or zstd"),
        (("levels", "epoch", -1), "$.levels.epoch", "-1 is out of range", "0 to 65535"),
        (("levels", "retired", [0]), "$.levels.retired[0]", "0 is out of range", "1 to 63"),
        (("placement", {}), "$.placement", "{} is not a list", "[ ]"),
        (("placement", 0, "clusters", []), "$.placement[0].clusters", "empty", "at least one"),
        (("placement", 0, "topics", MISSING), "$.placement[0]", "'topics' is missing", ""),
        (("clusters", 0, "receive_only", 1), "$.clusters[0].receive_only", "1 is neither", ""),
        (("metrics", "first_port", 0), "$.metrics.first_port", "0 is out", "1 to 65535"),
        (("metrics", "first_port", "1"), "$.metrics.first_port", "'1' is not", "1 to 65535"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_a_hint(change, path, message, hint):
    ((found_path, found_message, found_hint),) = told(changed(*change))
    assert found_path == path
    assert message in found_message
    assert hint in found_hint


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("towers", 0), "here", "'here' is not an endpoint"),
        (("towers", 0), "tcp://h:65535", "port 65535 is out of range"),
        (("stores", 0, "query"), "tcp://h:65536", "port 65536 is out of range"),
    ],
)
def test_an_endpoint_that_cannot_be_used(place, value, fault):
    ((path, message, hint),) = told(changed("clusters", 0, *place, value))
    assert path.startswith("$.clusters[0]." + place[0])
    assert message == fault
    assert hint


def test_every_problem_is_told_at_once():
    values = changed("tree", "level", 0)
    values["nme"] = 1
    values["clusters"][0]["id"] = True
    values["clusters"][1]["towers"] = []
    values["clusters"][1]["stores"][0]["query"] = "here"
    values["metrics"]["first_port"] = 0
    assert len(told(values)) == 6


@pytest.mark.parametrize("values", [None, 7, "text", [], [GOOD], True])
def test_what_is_no_mapping_is_no_topology(values):
    assert told(values)[0][0] == "$"


def test_a_long_value_does_not_fill_the_screen():
    assert all(
        len(message) < 100 and len(path) < 200
        for place in ("name", "version", "tree", "topics", "metrics", "clusters", "k" * 10_000)
        for path, message, _ in told(changed(place, "x y" * 10_000))
    )


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
keys = st.sampled_from(sorted({key for kind in KEYS.values() for key in kind})) | st.integers(0, 70)
anything = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=25,
)


@pytest.mark.slow
@repeatable
@given(values=anything)
def test_no_values_make_it_raise(values):
    _, problems = decode(values)
    assert problems


def places(values, path=()):
    """Every place inside nested values."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


@pytest.mark.slow
@repeatable
@given(place=st.sampled_from(list(places(GOOD))), value=anything)
def test_nothing_put_into_a_good_file_makes_it_raise(place, value):
    topology, problems = decode(changed(*place, value))
    assert all(problem.path.startswith("$") and problem.message for problem in problems)
    assert isinstance(topology, Topology)
