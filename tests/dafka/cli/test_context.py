"""Contexts as commands make them, and as commands heed them."""

from __future__ import annotations

import json

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dafka.cli.contexts import SETTINGS, contexts_file
from dafka.cli.main import app
from dafka.errors import MisuseError, QueryError
from dafka.transport.keys import new_keys

NOBODY = [f"tcp://127.0.0.1:{port}" for port in (1, 2, 3, 4)]


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, **variables):
    return CliRunner().invoke(app, [*words], env=variables)


def told(*words, **variables):
    """What a command prints that does what it should."""
    done = run(*words, **variables)
    assert done.exit_code == 0, done.output
    return done.output


def complaint(kind, *words, **variables):
    done = run(*words, **variables)
    assert isinstance(done.exception, kind), done.output
    return str(done.exception)


def asked(*words, **variables):
    """The store that `dafka topics` asks, and does not reach."""
    return complaint(QueryError, "topics", "--timeout", "0.01", *words, **variables).split()[2]


def test_one_that_is_made_used_and_deleted():
    assert "use it with" in told("context", "create", "a", "--store", NOBODY[0])
    assert "in use" in told("context", "create", "b", "--store", NOBODY[1], "--use")
    rows = [json.loads(row) for row in told("context", "list", "--json").splitlines()]
    assert [(row["context"], row["in_use"], row["store"]) for row in rows] == [
        ("a", False, [NOBODY[0]]),
        ("b", True, [NOBODY[1]]),
    ]
    assert asked() == NOBODY[1]
    told("context", "use", "a")
    assert asked() == NOBODY[0]
    told("context", "use")
    assert asked() == "tcp://127.0.0.1:5558"
    told("context", "delete", "a")
    assert "b" in told("context", "list")
    assert "no context 'a'" in complaint(MisuseError, "context", "use", "a")


def test_an_option_counts_more_than_a_variable_and_that_more_than_a_context():
    for name, store in zip(("a", "b"), NOBODY[:2], strict=True):
        told("context", "create", name, "--store", store)
    told("context", "use", "a")
    assert asked() == NOBODY[0]
    assert asked("--context", "b") == NOBODY[1]
    assert asked(DAFKA_CONTEXT="b") == NOBODY[1]
    assert asked("--context", "a", DAFKA_CONTEXT="b") == NOBODY[0]
    assert asked("--context", "b", DAFKA_STORE=NOBODY[2]) == NOBODY[2]
    assert asked("--store", NOBODY[3], DAFKA_STORE=NOBODY[2], DAFKA_CONTEXT="b") == NOBODY[3]


def test_where_one_store_is_asked_it_is_the_first_of_several():
    told("context", "create", "a", "--store", NOBODY[1], "--store", NOBODY[0], "--use")
    assert asked() == NOBODY[1]
    assert asked(DAFKA_STORE=f"{NOBODY[2]} {NOBODY[3]}") == NOBODY[2]
    words = ("gateway", "ledger", "check", "--all", "--timeout", "0.01")
    failed = complaint(QueryError, *words)
    assert NOBODY[0] in failed  # which was asked as well, and last


def test_it_has_keys_whose_files_are_looked_at(home):
    words = ("context", "create", "a", "--tower", NOBODY[0])
    assert "belong together" in complaint(MisuseError, *words, "--key", "a.secret")
    given = ("--access", "access.toml", "--key", "a.secret")
    assert "access.toml" in complaint(MisuseError, *words, *given)
    public, secret = new_keys()
    (home / "access.toml").write_text(f"cluster = '{public}'\n")
    (home / "a.secret").write_text(secret)
    (home / "a.secret").chmod(0o600)
    told(*words, *given, "--use")
    assert told("context", "show").splitlines() == [
        f"--tower {NOBODY[0]}",
        f"--access {home}/access.toml",
        f"--key {home}/a.secret",
    ]
    # They are used: another file in their place is refused.
    (home / "a.secret").write_text("no key")
    assert "a.secret" in complaint(MisuseError, "topics")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "would say nothing: give it some of --tower, --store,"),
        (("--tower", "here"), "'here'"),
        (("--wire", "telex"), "wire 'telex' is not known"),
    ],
)
def test_one_that_could_not_be_used_is_not_made(options, problem):
    assert problem in complaint(MisuseError, "context", "create", "a", *options)
    assert not contexts_file().exists()


def test_a_directory_that_takes_none_is_named(home):
    (home / "config").write_text("a file")
    problem = complaint(MisuseError, "context", "create", "a", "--tower", NOBODY[0])
    assert "contexts.toml" in problem
    assert "Not a directory" in problem


def test_one_that_is_not_there_is_named_with_the_file():
    problem = complaint(MisuseError, "topics", "--context", "nowhere")
    assert "'nowhere'" in problem
    assert str(contexts_file()) in problem
    assert "none is" not in complaint(MisuseError, "context", "show", "nowhere")
    assert "no context is in use" in complaint(MisuseError, "context", "show")


def test_help_needs_no_file_that_can_be_used():
    contexts_file().parent.mkdir(parents=True)
    contexts_file().write_text("current = x")
    assert "line 1" in complaint(MisuseError, "topics")
    assert "--context" in told("topics", "list", "--help")


def parts(name, command):
    yield name, command
    for below, one in getattr(command, "commands", {}).items():
        yield from parts(f"{name} {below}", one)


def test_who_enters_a_cluster_heeds_variables_and_who_serves_no_context():
    entering, serving = set(), set()
    for name, command in parts("dafka", get_command(app)):
        options = {option.name: option for option in command.params}
        if {"tower", "store", "access"} & {*options}:
            entering.add(name)
            variables = {options[one].envvar for one in SETTINGS if one in options}
            assert variables == {f"DAFKA_{one.upper()}" for one in SETTINGS if one in options}
            if "context" not in options:
                serving.add(name)
    assert serving == {f"dafka {one}" for one in ("tower", "store", "schemas", "gateway run")}
    assert {"dafka produce", "dafka consume", "dafka groups reset"} <= entering
