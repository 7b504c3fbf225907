"""Commands that look at a controller, over what it shows and what others say at such a port."""

from __future__ import annotations

import json

import pytest

from dafka.process.health import Health, serve_health
from tests.support.json_outputs import rows_of

pytestmark = pytest.mark.net

FLOW = {
    "flow": 7,
    "source": "north",
    "target": "south",
    "level": 1,
    "kind": "records",
    "share": "0/2",
    "writer": "r1",
    "epoch": 9,
    "state": "writing",
    "ready": 1,
    "why": "",
}
REPLICA = {
    "replica": "r1",
    "session": "active",
    "writing": 1,
    "ready": 0,
    "failed": 0,
    "last_end": "closed",
}
HELD = {"cluster": "south", "heard": True, "partitions": 1, "records": 5, "gone": 0}
AWAY = REPLICA | {"replica": "r2", "session": "waiting"}


@pytest.fixture(scope="module")
def there(free_ports):
    """What a controller shows, and where."""
    shown, endpoint = {}, f"127.0.0.1:{free_ports(1)}"
    health = Health()
    health.show({"/controller": lambda _: shown})
    serve_health(endpoint, health)
    return shown, endpoint


@pytest.fixture
def controller(there):
    shown, endpoint = there
    shown.clear()
    shown.update(in_charge=True, epoch=3, flows=[FLOW], replicas=[REPLICA], held_for=[HELD])
    return shown, endpoint


@pytest.mark.parametrize(("what", "row"), [("flows", FLOW), ("replicas", REPLICA)])
def test_what_a_controller_shows_is_told_to_scripts_and_people(run, controller, what, row):
    _, endpoint = controller
    code, said, _ = run("controller", what, endpoint, "--json")
    assert (code, rows_of(said)) == (0, [row])
    assert "r1" in run("controller", what, endpoint)[1]


def test_who_may_write_what_is_told_and_whether_it_does(run, controller):
    shown, endpoint = controller
    code, said, _ = run("controller", "grants", endpoint, "--json")
    assert (code, rows_of(said)) == (0, [FLOW])
    shown["flows"] += [
        FLOW | {"flow": 8, "writer": "", "epoch": 0, "state": ""},
        FLOW | {"flow": 9, "writer": "a", "state": "warm", "why": "another replica writes"},
    ]
    code, said, _ = run("controller", "grants", endpoint)
    assert code == 1
    for word in ("nobody", "not said", "warm: another replica writes", "north to south, level 1"):
        assert word in said
    _, said, _ = run("controller", "grants", endpoint, "--json")
    assert [json.loads(line)["writer"] for line in said.splitlines()] == ["", "a", "r1"]
    shown["in_charge"] = False
    assert run("controller", "grants", endpoint)[0] == 2


def test_what_is_held_for_others_is_told_and_what_is_gone(run, controller):
    shown, endpoint = controller
    code, said, _ = run("controller", "held", endpoint, "--json")
    assert (code, rows_of(said)) == (0, [HELD])
    shown["held_for"].append(HELD | {"cluster": "west", "gone": 2})
    code, said, _ = run("controller", "held", endpoint)
    assert code == 1
    assert "west" in said


def test_where_nothing_is_held_or_nobody_in_charge_was_asked(run, controller):
    """Whose exit code is 0 where nothing is known would say that nothing is gone."""
    shown, endpoint = controller
    shown["held_for"].clear()
    code, said, _ = run("controller", "held", endpoint)
    assert (code, said[:15]) == (0, "nothing is held")
    assert run("controller", "held", endpoint, "--json")[:2] == (0, "")
    shown["in_charge"] = False
    code, said, told = run("controller", "held", endpoint)
    assert (code, said) == (2, "")
    assert f"{endpoint} is not in charge: ask another" in told


def test_whether_it_is_in_charge_and_lacks_none(run, controller):
    shown, endpoint = controller
    code, said, _ = run("controller", "status", endpoint)
    assert (code, said) == (0, "in charge, epoch 3: 1 of 1 flows written by 1 replicas\n")
    shown["replicas"].append(AWAY)
    code, said, _ = run("controller", "status", endpoint)
    assert (code, said.splitlines()[1]) == (1, "away: r2")
    code, said, _ = run("controller", "status", endpoint, "--json")
    assert (code, json.loads(said)["away"], json.loads(said)["written"]) == (1, ["r2"], 1)
    shown.update(in_charge=False, epoch=0, flows=[], replicas=[])
    assert run("controller", "status", endpoint)[:2] == (0, "ready to take over\n")


def test_what_cannot_be_told_is_said(run, controller, free_ports):
    shown, endpoint = controller
    assert "expected HOST:PORT" in run("controller", "flows", "here")[2]
    nobody = f"127.0.0.1:{free_ports(1)}"
    code, _, complaint = run("controller", "flows", nobody)
    assert (code, f"no answer from {nobody}" in complaint) == (1, True)
    shown["flows"] = [{"strange": 1}]
    code, _, complaint = run("controller", "flows", endpoint)
    assert (code, "does not answer as a controller" in complaint) == (1, True)
