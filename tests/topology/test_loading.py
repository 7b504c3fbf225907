import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.errors import InvalidError, TopologyError, UnreadableError
from topology.loading import DEPTH_MAX, FILE_BYTES_MAX, load, parse
from topology.model import GroupMargin, OffsetSettings, Ports, Topology, host_and_port
from topology.plan import plan
from topology.replica_rules import replica_places
from topology.rules import process_count

CONFIG = Path(__file__).parents[2] / "config"
FILES = sorted(CONFIG.glob("*.yaml"))
GOOD = (CONFIG / "four-clusters.yaml").read_text()

repeatable = settings(derandomize=True, deadline=None, max_examples=150)


@pytest.fixture
def written(tmp_path):
    """A function that writes a text to a file, and returns its path."""

    def written(text):
        path = tmp_path / "t.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def problems_in(path):
    with pytest.raises(InvalidError) as caught:
        load(path)
    return caught.value.problems


def test_the_four_clusters_are_read():
    topology = load(CONFIG / "four-clusters.yaml")
    assert topology.name == "four-clusters"
    assert [(cluster.name, cluster.id) for cluster in topology.clusters] == [
        ("cluster-1", 1),
        ("cluster-2", 2),
        ("cluster-3", 3),
        ("cluster-4", 4),
    ]
    assert topology.clusters[1].towers == ("tcp://127.0.0.1:17110",)
    assert topology.clusters[1].stores[0].data == "data/cluster-2"
    assert topology.metrics == Ports(first_port=17_900)
    assert topology.topics.include == ("*",)


def test_the_unbalanced_tree_runs_the_distributors_of_the_distribution_model():
    levels = {}
    for distributor in plan(load(str(CONFIG / "unbalanced.yaml"))).distributors:
        levels.setdefault(distributor.cluster, []).append(distributor.level)
    assert levels == {
        "cluster-1": [3, 2],
        "cluster-2": [3, 2, 1],
        "cluster-3": [3, 2, 1],
        "cluster-4": [3, 1],
        "cluster-5": [3, 1],
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_we_ship_is_valid(path):
    assert isinstance(load(path), Topology)


def ports_of(topology):
    """Every port that the processes of a topology take."""
    ports = []
    for cluster in topology.clusters:
        for tower in cluster.towers:
            _, port = host_and_port(tower)
            ports += [port, port + 1]
        ports += [host_and_port(store.query)[1] for store in cluster.stores]
        if cluster.registry:
            ports.append(host_and_port(cluster.registry)[1])
        ports += [host_and_port(place)[1] for _, place in replica_places(cluster)]
    if topology.metrics:
        first = topology.metrics.first_port
        ports += range(first, first + process_count(topology))
    return ports


def test_no_two_files_we_ship_share_a_port_or_directory():
    """All can run side by side on one machine."""
    used = []
    for path in FILES:
        topology = load(path)
        used += ports_of(topology)
        used += [store.data for cluster in topology.clusters for store in cluster.stores]
    assert sorted(one for one, times in Counter(used).items() if times > 1) == []


SIX_ERRORS = """\
version: 1
name: six
nam: six
clusters:
  - {name: a, id: true, towers: ["tcp://[::1]:1"], stores: [{query: "tcp://[::1]:3", data: a}]}
  - {name: b, id: 2, towers: [], stores: [{query: "tcp://[::1]:3", data: b}]}
  - {name: c, id: 3, towers: ["tcp://[::1]:7"], stores: [{query: "tcp://[::1]:9", data: c}]}
tree:
  level: 2
  children:
    - level: 2
      children: [a, b]
    - c
    - b
"""


def test_a_file_with_six_errors_is_told_all_six_in_the_order_of_its_lines(written):
    assert [(problem.line, problem.path) for problem in problems_in(written(SIX_ERRORS))] == [
        (3, "$.nam"),
        (5, "$.clusters[0].id"),
        (6, "$.clusters[1].towers"),
        (6, "$.clusters[1].stores[0].query"),
        (11, "$.tree.children[0].level"),
        (14, "$.tree.children[2]"),
    ]


def test_a_key_that_stands_twice_is_told_with_everything_else(written):
    text = GOOD.replace("    id: 2\n", "    id: 2\n    id: 7\n").replace("level: 3", "level: 1")
    first, *others = problems_in(written(text))
    assert first.path == "$.clusters[1].id"
    assert first.message == "key 'id' stands twice, again in line 15"
    assert first.hint == "keep one of them"
    assert [problem.path for problem in others] == [
        "$.tree.children[0].level",
        "$.tree.children[1].level",
    ]


def test_what_is_missing_is_told_at_the_line_of_what_lacks_it(written):
    (problem,) = problems_in(written(GOOD.replace("    id: 2\n", "")))
    assert (problem.line, problem.path) == (13, "$.clusters[1]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x", "anchors and aliases are not accepted"),
        ("a: *x", "anchors and aliases are not accepted"),
        ("a: [*]", "what begins with * or & stands in quotes"),
        ("a:\n\t- b", "indent with spaces, not with tabs"),
        ("a: {b: ${PORT}}", "variables are not filled in"),
        ("&a [*a]", "anchors and aliases are not accepted"),
        ("- &a {<<: *a}", "anchors and aliases are not accepted"),
        ("base: &b {a: 1}\nc: {<<: *b}", "anchors and aliases are not accepted"),
        ("!!python/object/apply:os.system ['true']", "python/object/apply:os.system' is not"),
        ("!!str 7", "is not accepted"),
        ("a: !include other.yaml", "tag '!include' is not accepted"),
        ("!local {a: 1}", "tag '!local' is not accepted"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("[" * 33 + "]" * 33, f"nested more than {DEPTH_MAX} deep"),
        ("[" * 100_000, f"nested more than {DEPTH_MAX} deep"),
        ("{a: " * 5_000, f"nested more than {DEPTH_MAX} deep"),
        ("- " * 5_000, f"nested more than {DEPTH_MAX} deep"),
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("a: [1, 2", "at line 1"),
        ("a: b: c", "at line 1, column 5"),
        ("\tname: x", "at line 1"),
        ("a: \x07", "not text: character"),
        ("%YAML 9.9\n---\na: 1", "line 1"),
    ],
    ids=lambda value: value[:20],
)
def test_yaml_that_has_no_place_here_is_refused_with_its_place(written, text, said):
    with pytest.raises(UnreadableError) as caught:
        load(written(text))
    assert said in str(caught.value)
    assert "t.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_as_many_levels_of_nesting_as_allowed_are_read():
    assert parse("[" * DEPTH_MAX + "]" * DEPTH_MAX, "text").values


def test_a_merge_key_without_an_anchor_is_just_an_unknown_key(written):
    (problem,) = problems_in(written(GOOD + "\n<<: {name: other}\n"))
    assert problem.message == "unknown key '<<'"


def test_a_key_that_is_a_list_or_a_mapping_is_refused(written):
    (problem,) = problems_in(written(GOOD + "\n? [a, b]\n: 1\n"))
    assert problem.message == "a key in line 40 is neither a word nor a number"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("True", "True"),
        ("22:22", "22:22"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("1.5", "1.5"),
        ("1e3", "1e3"),
        ("2026-11-21", "2026-11-21"),
        ("'7'", "7"),
        ('"true"', "true"),
        ("9" * 21, "9" * 21),
        ("|\n  7", "7"),
    ],
)
def test_scalars_are_read_without_surprises(text, value):
    found = parse(f"a: {text}", "text").values["a"]
    assert (found, type(found)) == (value, type(value))


def test_a_number_with_a_leading_zero_is_refused_because_it_has_two_readings():
    document = parse("id: 010", "text")
    assert [(problem.path, problem.message) for problem in document.problems] == [
        ("$.id", "number '010' has a leading zero")
    ]


@pytest.mark.slow
def test_a_file_of_the_largest_size_is_read_and_one_octet_more_is_refused(written):
    padding = "#" * (FILE_BYTES_MAX - len(GOOD.encode()))
    load(written(GOOD + padding))
    with pytest.raises(UnreadableError, match=f"larger than {FILE_BYTES_MAX} bytes"):
        load(written(GOOD + padding + "#"))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UnreadableError, match=r"cannot read '.*none\.yaml': No such file"):
        load(tmp_path / "none.yaml")


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(UnreadableError, match="Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5_000])
def test_a_path_that_cannot_be_is_refused(name):
    with pytest.raises(TopologyError):
        load(name)


@pytest.mark.parametrize("octets", [b"\xff\xfe\x00", b"\x89PNG\r\n\x1a\n", b"name: \xc3"])
def test_what_is_not_text_is_refused(written, octets):
    with pytest.raises(UnreadableError, match="not UTF-8 text"):
        load(written(octets))


def test_escape_codes_in_a_file_do_not_reach_the_terminal(written):
    for text in ('"\\e[31m": 1', 'name: "\\e[31m"', "!<\\e[31m> 1", "a: \x1b[31m"):
        with pytest.raises(TopologyError) as caught:
            load(written(text))
        assert "\x1b" not in str(caught.value)


def attempt(path):
    """Load; a refusal is fine, any other error is not."""
    try:
        assert isinstance(load(path), Topology)
    except TopologyError:
        return


def fresh(tmp_path_factory, octets):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(octets)
    return path


YAMLISH = st.text(alphabet="ab:-[]{}&*!|>'\"#%@`,?~ \n\t019<=\\\x1bé", max_size=60)


@repeatable
@given(text=st.text(max_size=60) | YAMLISH)
def test_no_text_raises_anything_but_our_errors(tmp_path_factory, text):
    attempt(fresh(tmp_path_factory, text.encode(errors="replace")))


@repeatable
@given(octets=st.binary(max_size=60))
def test_no_octets_raise_anything_but_our_errors(tmp_path_factory, octets):
    attempt(fresh(tmp_path_factory, octets))


@pytest.mark.slow
@repeatable
@given(start=st.integers(0, len(GOOD)), length=st.integers(0, 80), text=YAMLISH)
def test_no_change_of_a_good_file_raises_anything_but_our_errors(
    tmp_path_factory, start, length, text
):
    mutated = GOOD[:start] + text + GOOD[start + length :]
    attempt(fresh(tmp_path_factory, mutated.encode()))


@repeatable
@given(chance=st.integers(0, 2**32 - 1).map(random.Random))
def test_no_shuffled_lines_of_a_good_file_raise_anything_but_our_errors(tmp_path_factory, chance):
    lines = GOOD.splitlines(keepends=True)
    some = chance.sample(lines, chance.randint(1, len(lines)))
    attempt(fresh(tmp_path_factory, "".join(some).encode()))


CLUSTER_1 = "- name: cluster-1"


def test_a_cluster_says_how_its_nodes_speak(written):
    said = f"{CLUSTER_1}\n    wire: libdafka\n    classic: false"
    first, second, *_ = load(written(GOOD.replace(CLUSTER_1, said, 1))).clusters
    assert (first.wire, first.classic) == ("libdafka", False)
    assert (second.wire, second.classic) == ("rfc46", None)


def test_a_cluster_says_how_records_get_to_its_nodes(written):
    said = f"{CLUSTER_1}\n    delivery: stores"
    first, second, *_ = load(written(GOOD.replace(CLUSTER_1, said, 1))).clusters
    assert (first.delivery, second.delivery) == ("stores", "direct")


@pytest.mark.parametrize("line", ["wire: kafka", "wire: 1", "classic: maybe", "delivery: carrier"])
def test_what_no_node_speaks_is_told(written, line):
    (problem,) = problems_in(written(GOOD.replace(CLUSTER_1, f"{CLUSTER_1}\n    {line}", 1)))
    assert problem.path == f"$.clusters[0].{line.split(':')[0]}"


def with_offsets(values):
    text = Path("config/four-clusters.yaml").read_text()
    return f"{text}\noffsets: {json.dumps(values)}\n"


def test_how_positions_are_translated(written):
    values = {
        "translation": "exact",
        "margin_ms": 0,
        "groups": [{"pattern": "billing-*", "margin_ms": 5_000}],
    }
    topology = load(written(with_offsets(values)))
    assert topology.offsets == OffsetSettings(
        translation="exact",
        margin_ms=0,
        groups=(GroupMargin(pattern="billing-*", margin_ms=5_000),),
    )


@pytest.mark.parametrize(
    ("values", "translation"),
    [
        ({}, "exact"),
        ({"margin_ms": 5}, "timestamp"),
        ({"margin_records": 5}, "timestamp"),
        ({"groups": [{"pattern": "a", "margin_ms": 5}]}, "timestamp"),
        ({"margin_ms": 5, "translation": "exact"}, "exact"),
    ],
)
def test_who_gives_margins_means_what_has_them(written, values, translation):
    assert load(written(with_offsets(values))).offsets.translation == translation


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        ([], "$.offsets", "[] is not a mapping"),
        ({"margin": 1}, "$.offsets.margin", "unknown key 'margin'"),
        ({"margin_ms": -1}, "$.offsets.margin_ms", "-1 is out of range"),
        ({"margin_records": -1}, "$.offsets.margin_records", "-1 is out of range"),
        ({"margin_ms": "1"}, "$.offsets.margin_ms", "'1' is not a whole number"),
        ({"translation": "magic"}, "$.offsets.translation", "'magic' is not known"),
        ({"groups": {}}, "$.offsets.groups", "{} is not a list"),
        ({"groups": [{"margin_ms": 1}]}, "$.offsets.groups[0]", "key 'pattern' is missing"),
        ({"groups": [{"pattern": "x"}]}, "$.offsets.groups[0]", "key 'margin_ms' is missing"),
    ],
)
def test_offsets_that_cannot_be_used(written, values, path, message):
    with pytest.raises(InvalidError) as refused:
        load(written(with_offsets(values)))
    assert (path, message) in [(one.path, one.message) for one in refused.value.problems]
