from __future__ import annotations

from types import SimpleNamespace

import pytest

from distributor.spark.examples import command_line
from distributor.spark.examples.command_line import run


@pytest.fixture
def called(monkeypatch):
    """A function that runs an example with these words: what was asked of whom."""

    def called(*words):
        asked = SimpleNamespace(opened=None, started=None, ended=[])

        def open_session(master, name, settings):
            asked.opened = master, name, dict(settings)
            return SimpleNamespace(stop=lambda: asked.ended.append("session"))

        def start(job, *arguments):
            asked.started = (*job[1:], *arguments)
            return SimpleNamespace(awaitTermination=lambda: asked.ended.append("query"))

        monkeypatch.setattr(command_line, "open_session", open_session)
        monkeypatch.setattr(command_line, "register", lambda _: None)
        monkeypatch.setattr("sys.argv", ["example", *words])
        given = {"cluster": "which", "table": "where"}
        run("example", "What it does.", given, start, {"spark.x": "1"})
        return asked

    return called


def test_what_is_said_reaches_the_job_in_its_order(called):
    asked = called(
        "t.yaml", "c1", "rows", "done", "--available-now", "--rows", "5", "--master", "m"
    )
    assert asked.opened == ("m", "example", {"spark.x": "1"})
    assert asked.started == ("t.yaml", "done", True, 5, "c1", "rows")
    assert asked.ended == ["query", "session"]


def test_without_more_it_runs_on_and_takes_all(called):
    asked = called("t.yaml", "c1", "rows", "done")
    assert asked.opened[0] == "local[*]"
    assert asked.started[2:4] == (False, None)


def test_what_is_missing_is_named(called, capsys):
    with pytest.raises(SystemExit):
        called("t.yaml", "c1")
    assert "required: table, checkpoint" in capsys.readouterr().err
