import json
import sys
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from topology import cli
from topology.plan import plan
from topology.prove import prove
from topology.testing import topology_of, tree_of

CONFIG = Path(__file__).parents[2] / "config"
FOUR = str(CONFIG / "four-clusters.yaml")
COMMANDS = ("check", "show", "plan", "prove")
"""Those that take one file."""
MANY = topology_of(tree_of((1, *(f"c{number}" for number in range(101)))))
WRONG = topology_of(tree_of((1, (2, "c1", "c2"), "c3")))

BAD_FILES = {
    "empty": b"",
    "binary": bytes(range(256)),
    "text": b"hello",
    "number": b"7",
    "list": b"[1, 2]",
    "cut": b"name: [1,",
    "alias": b"a: &a [*a]",
    "tag": b"!!python/object/apply:os.system ['true']",
    "documents": b"a: 1\n---\nb: 1",
    "deep": b"[" * 50_000,
    "large": b"#" * (1 << 20) + b"#",
    "wrong": b"version: 1\nname: x\nclusters: []\ntree: x\n",
    "escape": b'"\\e[31m": 1',
    "surrogate": b'name: "\\ud800"',
}


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the command as the shell does: exit code, standard output, error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["topology", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return code, captured.out, captured.err

    return run


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.yaml"
    text = Path(FOUR).read_text()
    path.write_text(text.replace("level: 3", "level: 1").replace("id: 2", "id: 1"))
    return path


@pytest.fixture
def wrong_labels(monkeypatch):
    """A topology that no file can declare, as if it had been read."""
    monkeypatch.setattr(cli, "load", lambda file: WRONG)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_a_good_file_is_exit_code_0_and_says_nothing_on_standard_error(run, command, path):
    code, out, err = run(command, path)
    assert (code, err) == (0, "")
    assert out.endswith("\n")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_exit_code_2_and_explained_on_standard_error(run, tmp_path, command, name):
    path = tmp_path / f"{name}.yaml"
    path.write_bytes(BAD_FILES[name])
    code, out, err = run(command, path)
    assert (code, out) == (2, "")
    assert err.startswith("topology: cannot")
    assert path.name in err
    assert "\x1b" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_and_a_directory_are_exit_code_2(run, tmp_path, command):
    for path in (tmp_path / "none.yaml", tmp_path):
        code, out, err = run(command, path)
        assert (code, out) == (2, "")
        assert err.startswith(f"topology: cannot read '{path}': ")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_understood_is_exit_code_2(run, command):
    assert run(command)[0] == 2
    assert run(command, FOUR, "--no-such-option")[0] == 2
    assert run(command, FOUR, "another")[0] == 2


def test_no_such_command_is_exit_code_2(run):
    assert run("chekc", FOUR)[0] == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_shows_an_example(command):
    result = CliRunner().invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: topology {command} config/four-clusters.yaml" in result.output


def test_the_help_names_every_command():
    assert set(get_command(cli.app).commands) == {
        *COMMANDS,
        "init",
        "names",
        "diff",
        "size",
        "deploy",
    }
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert all(command in result.output for command in COMMANDS)


def test_it_says_its_version(run):
    assert run("--version") == (0, f"{version('dafka-distributor')}\n", "")


def test_init_writes_a_file_that_check_takes(run, tmp_path):
    file = tmp_path / "first tree.yaml"
    code, out, _ = run("init", file, "--clusters", 3)
    assert code == 0
    assert f"3 clusters; run all of it with: distributor up '{file}'" in out
    assert "valid: 3 clusters" in run("check", file)[1]


@pytest.mark.parametrize(
    ("where", "more", "why"),
    [
        ("there.yaml", (), "is there: name another"),
        ("no/such/directory.yaml", (), "cannot write"),
        ("new.yaml", ("--clusters", 1), "is not in the range"),
        ("new.yaml", ("--clusters", 33), "is not in the range"),
    ],
)
def test_init_refuses_what_it_cannot_write(run, tmp_path, where, more, why):
    (tmp_path / "there.yaml").write_text("mine")
    code, _, error = run("init", tmp_path / where, *more)
    assert code == 2
    assert why in " ".join(error.replace("│", " ").split())
    assert (tmp_path / "there.yaml").read_text() == "mine"
    assert not (tmp_path / "new.yaml").exists()


def test_check_says_how_much_a_valid_file_declares(run):
    assert run("check", FOUR) == (
        0,
        f"{FOUR}: valid: 4 clusters, 2 levels, 8 distributors, 8 links\n",
        "",
    )


def test_check_names_every_problem(run, broken):
    code, out, err = run("check", broken)
    assert (code, out) == (2, "")
    assert "4 problems" in err
    for path in ("clusters[0].id", "clusters[1].id", "children[0].level", "children[1].level"):
        assert path in err


def test_check_tells_scripts_that_a_file_is_valid(run):
    code, out, err = run("check", FOUR, "--json")
    counts = {"clusters": 4, "levels": 2, "distributors": 8, "links": 8}
    told = {"version": 1, "valid": True, "problems": [], **counts}
    assert (code, json.loads(out), err) == (0, told, "")


def test_check_tells_scripts_every_problem(run, broken):
    code, out, err = run("check", broken, "--json")
    facts = json.loads(out)
    assert (code, err, facts["valid"]) == (2, "", False)
    assert [facts[noun] for noun in ("clusters", "levels", "distributors", "links")] == [None] * 4
    assert [problem["path"] for problem in facts["problems"]] == [
        "$.clusters[0].id",
        "$.clusters[1].id",
        "$.tree.children[0].level",
        "$.tree.children[1].level",
    ]
    assert all(problem["message"] and problem["hint"] for problem in facts["problems"])


@pytest.mark.parametrize("name", BAD_FILES)
def test_check_tells_scripts_what_is_wrong_with_any_bad_file(run, tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_bytes(BAD_FILES[name])
    code, out, err = run("check", path, "--json")
    facts = json.loads(out)
    assert (code, err, facts["valid"]) == (2, "", False)
    assert facts["problems"]


def test_a_single_cluster_is_shown_planned_and_proved(run, tmp_path):
    path = tmp_path / "one.yaml"
    store = '{query: "tcp://127.0.0.1:3", data: d}'
    path.write_text(
        "version: 1\nname: one\ntree: a\n"
        f'clusters: [{{name: a, id: 1, towers: ["tcp://127.0.0.1:1"], stores: [{store}]}}]\n'
    )
    said = run("check", path)[1]
    assert said.endswith(": valid: 1 cluster, 0 levels, 0 distributors, 0 links\n")
    assert run("show", path)[1].startswith("one\na  ·  id 1")
    assert run("plan", path, "--json") == (0, '{"version": 1, "links": []}\n', "")
    assert run("prove", path)[0] == 0


@pytest.mark.parametrize("form", ["text", "mermaid", "dot"])
def test_show_writes_the_same_to_the_terminal_and_to_a_file(run, tmp_path, form):
    code, out, _ = run("show", FOUR, "--format", form)
    path = tmp_path / "tree"
    assert run("show", FOUR, "--format", form, "--output", path)[0] == code == 0
    assert path.read_text() == out
    assert "cluster-4" in out


def test_show_draws_text_unless_told_otherwise(run):
    assert run("show", FOUR) == run("show", FOUR, "--format", "text")


def test_show_writes_a_png_that_opens(run, tmp_path):
    path = tmp_path / "tree.png"
    assert run("show", FOUR, "--format", "png", "--output", path)[0] == 0
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with Image.open(BytesIO(path.read_bytes())) as image:
        image.load()


def test_show_does_not_draw_a_png_that_nobody_can_look_at(run, monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "load", lambda file: MANY)
    code, out, err = run("show", FOUR, "--format", "png", "--output", tmp_path / "tree.png")
    assert (code, out) == (2, "")
    assert err.startswith("topology: cannot draw 101 clusters")


def test_show_does_not_write_a_png_to_the_terminal(run):
    code, out, err = run("show", FOUR, "--format", "png")
    assert (code, out) == (2, "")
    assert "--output" in err


def test_show_knows_four_formats(run):
    code, _, err = run("show", FOUR, "--format", "pdf")
    assert code == 2
    assert all(form in err for form in ("text", "mermaid", "dot", "png"))


@pytest.mark.parametrize("form", ["text", "png"])
def test_an_output_that_cannot_be_written_is_exit_code_2(run, tmp_path, form):
    for path in (tmp_path, tmp_path / "none" / "tree", "/proc/none"):
        code, out, err = run("show", FOUR, "--format", form, "--output", path)
        assert (code, out) == (2, "")
        assert "cannot" in err


def test_plan_lists_every_link_with_the_flags_it_looks_at_and_sets(run):
    out = run("plan", FOUR)[1]
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in out.splitlines()
        if line.startswith("│")
    ]
    assert len(rows) == 8
    assert rows[0] == ["cluster-1", "3", "0111", "0100", "cluster-3", "cluster-4"]
    assert rows[1] == ["cluster-1", "1", "0001", "0001", "cluster-2", ""]


def test_plan_tells_scripts_every_link(run):
    code, out, _ = run("plan", FOUR, "--json")
    rows = json.loads(out)["links"]
    assert (code, len(rows)) == (0, 8)
    assert rows[0] == {
        "source": "cluster-1",
        "level": 3,
        "branch": 1,
        "looks_at": 0b111,
        "sets": 0b100,
        "targets": ["cluster-3", "cluster-4"],
        "topics": "",
    }


def test_prove_says_what_it_tried(run):
    code, out, _ = run("prove", FOUR)
    assert code == 0
    assert out.startswith("holds: 4 origins, ")
    assert "exactly once" in out


def test_prove_tells_scripts_what_it_tried(run):
    code, out, _ = run("prove", FOUR, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["holds"] is facts["complete"] is True
    assert facts["failure"] == ""
    assert facts["runs"] == facts["combinations"] > 0


def test_prove_says_when_it_did_not_try_everything(run, monkeypatch):
    groups = (tuple(f"c{group}{number}" for number in range(3)) for group in range(4))
    topology = topology_of(tree_of((2, *((1, *group) for group in groups))))
    monkeypatch.setattr(cli, "load", lambda file: topology)
    monkeypatch.setattr(cli, "prove_plan", partial(cli.prove_plan, runs_max=12 * 5))
    code, out, _ = run("prove", FOUR)
    assert code == 0
    assert "96 runs of 324 possible" in out


@pytest.mark.usefixtures("wrong_labels")
def test_prove_shows_a_counter_example_and_is_exit_code_1(run):
    code, out, err = run("prove", FOUR)
    assert code == 1
    assert "does not hold: a record of 'c1' arrives at 'c3' 2 times" in err
    assert "a record published on c1" in out


@pytest.mark.usefixtures("wrong_labels")
def test_prove_tells_scripts_of_a_counter_example(run):
    code, out, err = run("prove", FOUR, "--json")
    facts = json.loads(out)
    assert (code, err, facts["holds"]) == (1, "", False)
    assert facts["failure"] == "a record of 'c1' arrives at 'c3' 2 times"


def test_a_trace_has_a_row_for_every_hop(capsys):
    found = prove(plan(WRONG)).counter_example
    Console(width=100).print(cli.trace_table(found))
    printed = capsys.readouterr().out
    assert "a record published on c1" in printed
    assert printed.count("\n│ ") == len(found.hops)


def test_the_longest_names_are_not_broken_in_a_pipe(run, tmp_path):
    names = [f"{number}-{'c' * 61}" for number in range(1, 5)]
    text = Path(FOUR).read_text().replace("directory: control", "directory: /run/dafka")
    for number, name in enumerate(names, 1):
        text = text.replace(f"cluster-{number}", name)
    file = tmp_path / "long.yaml"
    file.write_text(text)
    code, out, _ = run("plan", file)
    assert code == 0
    assert all(name in out for name in names)


def test_names_shows_a_topic_as_every_cluster_calls_it(run):
    file = CONFIG / "schemas.yaml"
    code, out, _ = run("names", file, "orders", "--field", "environment=dev", "--json")
    assert code == 0
    first, second = json.loads(out)["names"]
    assert first == {
        "cluster": "cluster-1",
        "topic": "acme-prod-dev-orders",
        "key": "acme-prod-dev-orders-key",
        "value": "acme-prod-dev-orders-value",
    }
    assert (second["topic"], second["value"]) == ("acme-prod-dev-orders", "acme-dev-orders-value")
    assert "acme-dev-orders-key" in run("names", file, "orders", "--field", "environment=dev")[1]


def test_names_says_which_field_has_no_value(run):
    code, _, error = run("names", CONFIG / "schemas.yaml", "orders")
    assert code == 2
    assert "field {environment} has no value" in error
    code, _, error = run("names", CONFIG / "schemas.yaml", "orders", "--field", "dev")
    assert code == 2
    assert "FIELD=VALUE" in error


def test_check_counts_replicas_in_place_of_distributors(run):
    file = Path(FOUR).with_name("controlled.yaml")
    code, out, _ = run("check", str(file))
    assert code == 0
    assert out.endswith(" 0 distributors, 8 links, 8 replicas, 4 controllers\n")


def test_check_tells_what_is_special(run, tmp_path):
    text = Path(FOUR).read_text().replace("    id: 4\n", "    id: 4\n    receive_only: true\n")
    text += 'placement: [{topics: "eu-*", clusters: [cluster-1, cluster-3]}]\nlevels: {epoch: 2}\n'
    file = tmp_path / "special.yaml"
    file.write_text(text)
    code, out, _ = run("check", str(file))
    assert code == 0
    assert "6 distributors, 8 links, cluster-4 only receives" in out
    assert "'eu-*' on cluster-1, cluster-3 only, epoch 2" in out


def changed_file(tmp_path, old, new, name="new.yaml"):
    text = Path(FOUR).read_text()
    assert old in text
    file = tmp_path / name
    file.write_text(text.replace(old, new))
    return str(file)


def test_diff_lists_the_steps(run, tmp_path):
    mute = changed_file(tmp_path, "    id: 3\n", "    id: 3\n    receive_only: true\n")
    code, out, _ = run("diff", FOUR, mute)
    assert code == 0
    shown = [line.split()[3] for line in out.splitlines() if line.startswith("│")]
    assert shown == ["retarget", "retarget", "silence", "drain", "switch"]
    code, out, _ = run("diff", FOUR, mute, "--json")
    facts = json.loads(out)
    assert (code, facts["allowed"], facts["refusals"]) == (0, True, [])
    assert facts["steps"][0] | {"text": ""} == {
        "action": "retarget",
        "cluster": "cluster-1",
        "level": 3,
        "to": "cluster-4",
        "topics": "",
        "text": "",
    }


def test_diff_refuses_what_would_lose_records_and_names_the_rule(run, tmp_path):
    relabelled = changed_file(tmp_path, "  level: 3\n", "  level: 4\n")
    code, out, err = run("diff", FOUR, relabelled)
    assert (code, out) == (1, "")
    assert "relabel: the branch over" in err
    assert "hint: keep level 3, or write levels: {epoch: 1}" in err
    code, out, _ = run("diff", FOUR, relabelled, "--json")
    facts = json.loads(out)
    assert (code, facts["allowed"], facts["steps"]) == (1, False, [])
    assert [refusal["rule"] for refusal in facts["refusals"]] == ["relabel"]


def test_diff_of_the_same_has_nothing_to_do(run):
    assert run("diff", FOUR, FOUR)[:2] == (0, "nothing has to be done\n")


def test_check_looks_at_files_where_that_is_asked(run, tmp_path):
    file = tmp_path / "keyed.yaml"
    security = "{access: access.toml, cluster_key: cluster.secret, key: me.secret}"
    file.write_text(
        "version: 1\nname: keyed\ntree: a\nclusters:\n- {name: a, id: 1, "
        "towers: ['tcp://127.0.0.1:1'], stores: [{query: 'tcp://127.0.0.1:3', data: a}], "
        f"security: {security}}}\n"
    )
    assert run("check", file)[0] == 0
    code, _, error = run("check", file, "--files")
    assert code == 2
    assert "3 problems" in error
    assert "access.toml': No such file or directory" in error
    code, out, _ = run("check", file, "--files", "--json")
    told = json.loads(out)
    assert (code, told["valid"], len(told["problems"]), told["clusters"]) == (2, False, 3, 1)
    for name in ("access.toml", "cluster.secret", "me.secret"):
        (tmp_path / name).touch(mode=0o600)
    assert run("check", file, "--files")[0] == 0


def test_size_shows_every_process_and_cluster(run):
    words = "--rate", "1000", "--rate", "cluster-1=60000", "--retention", "7d"
    code, out, _ = run("size", FOUR, *words)
    assert code == 0
    assert "63,000" in out
    assert "clusters, without producers" in out
    code, out, _ = run("size", FOUR, "--rate", "cluster-1=400000", "--json")
    found = json.loads(out)
    assert [one["cluster"] for one in found["clusters"]] == [f"cluster-{n}" for n in range(1, 5)]
    assert found["processes"][0]["process"] == "producers"
    assert "cluster-1 store-1 needs 1.6 cores" in found["warnings"][0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rate", "c9=5"), "no cluster 'c9'"),
        (("--rate", "many"), "is not RECORDS or CLUSTER=RECORDS"),
        (("--rate", "5", "--record", "big"), "is not a number of bytes"),
        (("--rate", "5", "--retention", "7"), "is not a time"),
    ],
)
def test_size_names_what_it_cannot_read(run, words, told):
    code, _, err = run("size", FOUR, *words)
    assert code == 2
    assert told in " ".join(err.replace("│", " ").split())


def test_deploy_lists_what_it_has_changed(run, tmp_path):
    words = ("deploy", "systemd", CONFIG.parent / "deploy/topology.yaml", "--out", tmp_path)
    code, out, _ = run(*words)
    assert code == 0
    assert f"{tmp_path}/dafka-1.example/dafka-cluster-1-store-1.service\n" in out
    assert out.endswith("32 files changed\n")
    assert run(*words) == (0, "nothing has changed\n", "")
    assert run(*words, "--json") == (0, '{"version": 1, "changed": []}\n', "")
    code, _, err = run("deploy", "kubernetes", FOUR, "--out", tmp_path)
    assert code == 2
    assert "data 'data/cluster-1'" in err
