"""Commands that ask a controller, over a desk that answers what it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributor.control.aims import LinkTurn
from distributor.control.demands import LevelPause
from distributor.control.operator_desk import NotInChargeError
from distributor.control.questions import Waited
from distributor.control.resuming import ResumeOrder
from distributor.errors import RefusedCommandError
from tests.support.json_outputs import rows_of
from tests.support.operators import LEFT, FakeDesk, served

pytestmark = pytest.mark.net


@pytest.fixture
def desk():
    return FakeDesk()


@pytest.fixture
def place(desk):
    with served(desk) as place:
        yield place


def test_what_is_there_is_told_to_people_and_scripts(run, place):
    code, said, _ = run("controller", "wait", place)
    assert code == 0
    assert said.startswith("at all targets after ")
    assert said.endswith("s: 2 partitions, 1 flow\n")
    code, said, _ = run("controller", "wait", place, "--json")
    told = json.loads(said)
    assert (code, told["there"], told["left"], told["partitions"]) == (0, True, [], 2)


def test_what_is_missing_is_told_to_people_and_scripts(run, place, desk):
    desk.waited_for = Waited((LEFT,), 1, 2)
    code, said, _ = run("controller", "wait", place, "--timeout", "0")
    assert code == 1
    assert "not at these targets after" in said
    assert "writing" in said
    code, said, _ = run("controller", "wait", place, "--json")
    assert (code, json.loads(said)["left"][0]["lacks"]) == (1, 3)


def test_who_does_not_answer_is_told_from_what_is_missing(run, place, desk, free_ports):
    desk.failure = NotInChargeError("")
    code, said, complaint = run("controller", "wait", place)
    assert (code, said) == (4, "")
    assert "this controller is not in charge" in complaint
    code, _, complaint = run("controller", "wait", f"127.0.0.1:{free_ports(1)}")
    assert code == 4
    assert "no answer from 127.0.0.1" in complaint


@pytest.mark.parametrize(
    "words",
    [
        ("wait", "nowhere"),
        ("explain", "nowhere", "orders"),
        ("wait", "127.0.0.1:1", "--certificate", "x.pem"),
    ],
    ids=range(3),
)
def test_a_mistake_is_one_line_and_exit_code_2(run, words):
    code, _, complaint = run("controller", *words)
    assert code == 2
    assert len(complaint.splitlines()) == 1


def test_ways_are_told_to_people_and_scripts(run, place, desk):
    code, said, _ = run("controller", "explain", place, "orders")
    assert code == 0
    assert "on its way" in said
    code, said, _ = run("controller", "explain", place, "ABCD", "--sequence", "3", "--json")
    row = json.loads(said)
    assert (code, row["carried"], row["lacks"]) == (0, True, 3)
    ((question,),) = desk.asked[1:]
    assert (question.what, question.sequence) == ("ABCD", 3)


def test_who_does_not_explain_is_code_1(run, place, desk):
    desk.failure = NotInChargeError("")
    assert run("controller", "explain", place, "orders")[0] == 1


def test_links_are_turned_and_back(run, place, desk):
    code, said, _ = run("controller", "retarget", place, "--level", "3", "--to", "south", "--json")
    assert (code, json.loads(said)["target"]) == (0, "south")
    code, said, _ = run("controller", "failback", place, "--level", "3")
    assert code == 0
    assert "south" in said
    assert desk.asked == [(LinkTurn(3, "south"),), (LinkTurn(3, ""),)]
    desk.failure = RefusedCommandError("no link crosses level 3 here")
    code, _, complaint = run("controller", "failback", place, "--level", "3")
    assert code == 2
    assert "no link crosses level 3 here" in complaint


def test_links_pause_and_go_on(run, place, desk):
    code, said, _ = run("controller", "pause", place, "--level", "3", "--json")
    assert (code, json.loads(said)["target"]) == (0, "south")
    code, said, _ = run("controller", "unpause", place, "--level", "3")
    assert (code, "south" in said) == (0, True)
    assert desk.asked == [(LevelPause(3, paused=True),), (LevelPause(3, paused=False),)]


def test_holes_are_passed_over(run, place, desk):
    words = ("resume", place, "--level", "3", "--topic", "orders")
    code, said, _ = run("controller", *words, "--json")
    assert (code, rows_of(said)) == (0, [{"partitions": 2, "records": 70}])
    code, said, _ = run("controller", *words)
    assert said == "level 3 goes on with 2 partitions of 'orders', without at least 70 records\n"
    assert desk.asked == [(ResumeOrder(3, "orders"),)] * 2
    desk.failure = RefusedCommandError("no partition is overtaken")
    assert run("controller", *words)[0] == 2


@pytest.fixture
def controlled(tmp_path, place, free_ports):
    """A function that writes a file whose controllers listen there, or nowhere."""
    text = Path("config/controlled.yaml").read_text()
    dead = f"127.0.0.1:{free_ports(1)}"

    def write(*places):
        found = ", ".join(
            f"{{metrics: 127.0.0.1:{one}, listen: '{at}'}}"
            if at
            else f"{{metrics: 127.0.0.1:{one}}}"
            for one, at in enumerate(places, 1)
        )
        old = "controllers: [{metrics: 127.0.0.1:17303, listen: 127.0.0.1:17308}]"
        assert old in text
        file = tmp_path / "controlled.yaml"
        file.write_text(text.replace(old, f"controllers: [{found}]"))
        return file

    return write, place, dead


def test_a_controller_of_the_file_is_told_that_answers(run, controlled, desk):
    write, place, dead = controlled
    words = ("--cluster", "cluster-1", "--level", "3", "--to", "cluster-4")
    code, said, _ = run("retarget", write(dead, place), *words)
    assert (code, "south" in said) == (0, True)
    assert desk.asked == [(LinkTurn(3, "cluster-4"),)]
    code, _, complaint = run("retarget", write(dead), *words)
    assert code == 1
    assert f"no answer from {dead}" in complaint
    code, _, complaint = run("retarget", write(""), *words)
    assert code == 2
    assert "have no `listen` in the file" in complaint


def test_holes_are_passed_over_by_the_file(run, controlled, desk):
    write, place, dead = controlled
    words = ("--cluster", "cluster-1", "--level", "3", "--topic", "orders")
    code, said, _ = run("resume", write(dead, place), *words)
    assert code == 0
    assert said.startswith("cluster-1 level 3 goes on with 2 partitions of 'orders'")
    assert desk.asked == [(ResumeOrder(3, "orders"),)]
