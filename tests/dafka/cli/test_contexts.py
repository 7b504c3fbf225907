from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dafka.cli.contexts import ClusterContext, Contexts, contexts_file, load_contexts
from dafka.errors import MisuseError

PROD = ClusterContext(
    tower=("tcp://10.0.0.1:5556", "tcp://10.0.0.2:5556"),
    store=("tcp://10.0.0.1:5558",),
    access="/keys/access.toml",
    key='/keys/a "quoted" näme.secret',
    wire="libdafka",
    host="10.0.0.9",
    advertise="10.0.0.9:7000",
)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "contexts.toml"


def test_what_is_saved_is_read_again_by_its_owner_only(file):
    contexts = Contexts(file, None, {}).having("prod", PROD).having("b.c-d_", ClusterContext())
    contexts.using("prod").save()
    assert load_contexts(file) == contexts.using("prod")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_one_that_is_deleted_is_in_use_no_more(file):
    contexts = Contexts(file, None, {}).having("a", PROD).having("b", PROD).using("a")
    assert contexts.without("b").current == "a"
    assert contexts.without("a") == Contexts(file, None, {"b": PROD})


def test_without_a_file_there_are_none(file):
    assert load_contexts(file) == Contexts(file, None, {})


@pytest.mark.parametrize("change", ["named", "using", "without"])
def test_one_that_is_not_there_is_refused_with_those_that_are(file, change):
    contexts = Contexts(file, None, {"b": PROD, "a": PROD})
    with pytest.raises(MisuseError, match=r"no context 'c' in '.*contexts.toml': there are a, b;"):
        getattr(contexts, change)("c")
    with pytest.raises(MisuseError, match="it has none"):
        getattr(Contexts(file, None, {}), change)("c")


@pytest.mark.parametrize(
    ("name", "context", "complaint"),
    [
        ("a", PROD, "delete a` first"),
        ("", PROD, "name '' cannot be used"),
        ("a b", PROD, "name 'a b' cannot be used"),
        ("c", ClusterContext(key="/k\x7f"), "--key '/k\\x7f' cannot be kept: it is not printable"),
    ],
)
def test_one_that_cannot_be_kept_is_refused(file, name, context, complaint):
    with pytest.raises(MisuseError) as refused:
        Contexts(file, None, {"a": PROD}).having(name, context)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("current = x", "(at line 1, column 11)"),
        ('\ncurrent = "a"\ncurrent = "b"', "Cannot overwrite a value"),
        ("current = 1", "current must be the name"),
        ('used = "a"', "used is not known"),
        ("contexts = 1", "contexts must be a table"),
        ("[contexts]\na = 1", "contexts.a must be a table"),
        ('[contexts.a]\ntowers = ["tcp://h:1"]', "contexts.a.towers is not known: tower, store,"),
        ('[contexts.a]\ntower = "tcp://h:1"', "contexts.a.tower must be a list of endpoints"),
        ("[contexts.a]\nstore = [1]", "contexts.a.store must be a list of endpoints, and is [1]"),
        ("[contexts.a]\nkey = 1", "contexts.a.key must be a string, and is 1"),
        ("# \ud800", "not UTF-8"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_place(file, text, place):
    file.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(MisuseError) as refused:
        load_contexts(file)
    assert str(file) in str(refused.value)
    assert place in str(refused.value)


def test_files_that_it_names_are_beside_it(file):
    file.write_text('[contexts.a]\naccess = "access.toml"\nkey = "/k/a.secret"\n')
    found = load_contexts(file).named("a")
    assert (found.access, found.key) == (str(file.parent / "access.toml"), "/k/a.secret")


@pytest.mark.parametrize("told", ["", "relative/config"])
def test_it_stands_in_the_home_directory_if_nobody_says_another(monkeypatch, told):
    monkeypatch.setenv("XDG_CONFIG_HOME", told)
    monkeypatch.setenv("HOME", "/home/me")
    assert contexts_file() == Path("/home/me/.config/dafka/contexts.toml")


def test_it_stands_where_others_keep_theirs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert contexts_file() == tmp_path / "dafka/contexts.toml"
