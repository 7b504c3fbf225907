from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import accumulate, repeat
from types import SimpleNamespace

import pytest

from dafka.errors import QueryError
from dafka.model import Partition, Slots
from dafka.process.clock import Clock
from dafka.records.envelope import Envelope
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import LmdbLog
from distributor.control import protocol
from distributor.control.agent import ControlServer
from distributor.errors import CommandError, PlanError
from distributor.link.target import Pause, Retarget
from distributor.local.pidfile import PidFile, find
from distributor.local.processes import control_endpoint
from distributor.operations import apply as applies
from distributor.operations.apply import Applying, alone
from distributor.operations.draining import QUIET_S
from distributor.operations.replicas import ToldByReplicas
from distributor.operations.slots import still_moving
from topology import load, plan
from topology.diff import Action, Step

pytestmark = pytest.mark.net

ORDERS = Partition("orders", "AB" * 16)
COPIED = Envelope(origin=1, copy_flags=1)
LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])
QUIET_AT_ONCE = Clock(seconds=accumulate(repeat(QUIET_S)).__next__)
"""Whoever asks again what time it is has waited long enough for silence."""
WANTS = {"wants": lambda *_: True}


@pytest.fixture
def logs(tmp_path, pair, monkeypatch):
    """Of an `up` that runs the pair, of whose stores nobody asks whether slots move."""
    monkeypatch.setattr(applies, "still_moving", lambda running: frozenset())
    directory = tmp_path / "logs"
    directory.mkdir()
    PidFile.of(pair.file).note(directory)
    return directory


@pytest.fixture
def hangups(monkeypatch):
    """What an `up` was told by signals."""
    told = []
    original = os.kill
    monkeypatch.setattr(
        os, "kill", lambda pid, number: told.append(number) if number else original(pid, 0)
    )
    return told


def changed(pair, old, new, name="new.yaml"):
    text = pair.file.read_text()
    assert old in text
    file = pair.file.with_name(name)
    file.write_text(text.replace(old, new))
    return file


def step(action, cluster="", level=0, to="", topics=""):
    return Step(action=action, text="", cluster=cluster, level=level, to=to, topics=topics)


def until_done(applying, each, reread):
    """Look at a step as often as one that is done needs it at most."""
    for _ in range(4):
        waits_for = applying.look(each)
        if waits_for == "`distributor up` to read its file again":
            reread()
    assert waits_for == "", each.text


def not_turned(cluster, level, to):
    raise AssertionError((cluster.name, level, to))


def not_paused(cluster, demand):
    raise AssertionError((cluster.name, demand))


UNTOLD = not_turned, not_paused


def test_the_steps_are_those_of_the_difference(pair, logs):
    applying = Applying(logs, changed(pair, "name: pair", "name: other"), not_turned, not_paused)
    assert [one.action for one in applying.steps] == [Action.SWITCH]
    assert (
        Applying(logs, changed(pair, "name: pair", "name: pair"), not_turned, not_paused).steps
        == ()
    )
    refused = Applying(logs, changed(pair, "level: 1", "level: 2"), not_turned, not_paused)
    assert [one.rule for one in refused.change.refusals] == ["relabel"]


def test_what_runs_is_not_applied_to_itself(pair, logs):
    with pytest.raises(PlanError, match="write what is to run into another file"):
        Applying(logs, pair.file, not_turned, not_paused)


def test_nothing_is_applied_where_nothing_runs(pair, tmp_path):
    with pytest.raises(PlanError, match="no `distributor up`"):
        Applying(tmp_path, pair.file, not_turned, not_paused)


def test_the_file_takes_the_place_of_the_one_that_runs_and_is_read(pair, logs, hangups):
    file = changed(pair, "name: pair", "name: other")
    applying = Applying(logs, file, not_turned, not_paused)
    (switch,) = applying.steps
    with pair.running():
        assert applying.look(switch) == "`distributor up` to read its file again"
        assert hangups == [signal.SIGHUP]
        assert pair.file.read_text() == file.read_text()
        # Interrupted here, it goes on with what is left.
        again = Applying(logs, file, not_turned, not_paused)
        assert [one.action for one in again.steps] == [Action.SWITCH]
        PidFile.of(pair.file).note(logs)
        assert again.look(switch) == ""
    assert again.look(switch) == "c1, c2 to answer"
    again.finish()
    assert Applying(logs, file, not_turned, not_paused).steps == ()


def test_the_new_file_is_on_the_disk_before_who_runs_it_is_told(pair, logs, hangups, monkeypatch):
    synced = []

    def sync(directory):
        synced.append((directory, pair.file.read_text(), list(hangups)))

    monkeypatch.setattr(applies, "sync_directory", sync)
    file = changed(pair, "name: pair", "name: other")
    applying = Applying(logs, file, not_turned, not_paused)
    with pair.running():
        applying.look(applying.steps[0])
        first = pair.file.parent, file.read_text(), []
        assert synced == [first]
        assert hangups == [signal.SIGHUP]
        # Whoever begins again does not know whether the one before came as far.
        again = Applying(logs, file, not_turned, not_paused)
        again.look(again.steps[0])
    assert len(synced) == 2


def test_a_change_that_was_judged_by_another_file_than_runs_now_is_not_made(pair, logs, hangups):
    """Two were begun of the same file; what may follow the first nobody has looked at."""
    first, second = (
        Applying(logs, changed(pair, "name: pair", f"name: {name}", f"{name}.yaml"), *UNTOLD)
        for name in ("first", "second")
    )
    first.look(first.steps[0])
    PidFile.of(pair.file).note(logs)
    runs = pair.file.read_bytes()
    with pytest.raises(CommandError, match=r"topology.yaml was changed .* give the command again"):
        second.look(second.steps[0])
    assert pair.file.read_bytes() == runs
    assert b"name: pair" in pair.file.with_name(".topology.yaml.before").read_bytes()


def test_of_two_that_apply_the_second_is_told_who_does(pair, logs, tmp_path):
    complaint = f"in use by process {os.getpid()}: .*wait for that `distributor apply`"
    with alone(logs), pytest.raises(CommandError, match=complaint), alone(logs):
        raise AssertionError
    with alone(logs):
        pass
    with pytest.raises(PlanError, match="no `distributor up`"), alone(tmp_path):
        raise AssertionError


def test_a_file_that_up_may_not_use_is_told(pair, logs, hangups):
    applying = Applying(logs, changed(pair, "name: pair", "name: other"), not_turned, not_paused)
    (switch,) = applying.steps
    applying.look(switch)
    replace(find(logs), problem="no keys").note(logs)
    with pytest.raises(CommandError, match="no keys"):
        applying.look(switch)


@pytest.fixture
def leaving(pair, logs, hangups, make_batch):
    """A change by which c1 goes, drained; and its last step."""
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"], envelope=COPIED))
    applying = Applying(logs, changed(pair, "name: pair", "name: other"), not_turned, not_paused)
    drain, switch = step(Action.DRAIN, "c1"), step(Action.SWITCH)
    applying.change = replace(applying.change, steps=(drain, switch))
    with pair.running():
        assert applying.look(drain) == ""
    return applying, switch


def test_who_publishes_after_the_drain_is_waited_for_before_the_switch(
    leaving, pair, make_batch, hangups
):
    applying, switch = leaving
    pair.fill(1, make_batch([b"late"], 2))
    with pair.running():
        assert applying.look(switch) == "c2, which lacks records of 1 partition"
        assert hangups == []
    pair.fill(2, make_batch([b"late"], 2, envelope=COPIED))
    with pair.running():
        assert applying.look(switch) == "`distributor up` to read its file again"


def test_what_a_cluster_takes_as_it_is_stopped_is_said_and_where_it_is(
    leaving, pair, logs, make_batch, monkeypatch
):
    applying, switch = leaving
    with pair.running():
        applying.look(switch)
    PidFile.of(pair.file).note(logs)
    pair.fill(1, make_batch([b"late"], 2))
    only_c2 = SimpleNamespace(
        topology=SimpleNamespace(
            clusters=pair.topology.clusters[1:], cluster=pair.topology.cluster, **WANTS
        )
    )
    monkeypatch.setitem(applying._plans, True, only_c2)
    with pair.running(2):
        waits = applying.look(switch)
        assert waits.startswith("c2, which lacks records of 1 partition: c1 has them in")
        assert pair.topology.clusters[0].stores[0].data in waits
    pair.fill(2, make_batch([b"late"], 2, envelope=COPIED))
    with pair.running(2):
        assert applying.look(switch) == ""


@pytest.mark.parametrize("back", [False, True])
def test_the_store_of_a_cluster_that_begins_or_ends_to_receive_only_need_not_end(
    pair, logs, hangups, make_batch, back
):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"], envelope=COPIED))
    sends, receives = "    id: 2\n", "    id: 2\n    receive_only: true\n"
    if back:
        sends, receives = receives, sends
        pair.file.write_text(pair.file.read_text().replace(receives, sends))
        PidFile.of(pair.file).note(logs)
    applying = Applying(logs, changed(pair, sends, receives), not_turned, not_paused, QUIET_AT_ONCE)
    with pair.running():
        for each in applying.steps:
            until_done(applying, each, lambda: PidFile.of(pair.file).note(logs))


class FakeLink:
    """A link that obeys at the second look."""

    targets = ("c2", "c9")

    def __init__(self):
        self.told = []
        self.rows = [("c2", "serving", ""), ("c2", "draining", "c9")]

    def tell(self, event):
        self.told.append(event)

    def row(self):
        target, state, following = self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]
        return protocol.LinkRow("c1", 1, 1, target, state, following, "c3 is slow", 0, 5)

    def remembered(self, cluster):
        return None


@pytest.fixture
def controlled(make_pair, logs):
    """A pair with control sockets, its link, and what is to follow."""
    pair = make_pair("control: {}")
    PidFile.of(pair.file).note(logs)
    link = FakeLink()
    with ExitStack() as stack:
        server = ControlServer(
            control_endpoint(pair.topology, plan(pair.topology).distributors[0]), [link]
        )
        stack.callback(server.close)
        yield (
            Applying(logs, changed(pair, "name: pair", "name: other"), not_turned, not_paused),
            link,
        )


def test_a_link_is_retargeted_once_and_waited_for(controlled):
    applying, link = controlled
    retarget = step(Action.RETARGET, "c1", 1, "c2")
    assert applying.look(retarget) == "", "it aims there already"
    assert link.told == []
    link.rows = [("c9", "serving", ""), ("c9", "draining", "c2"), ("c2", "serving", "")]
    assert applying.look(retarget) == "c3 is slow"
    assert link.told == [Retarget("c2")]
    assert applying.look(retarget) == ""
    assert len(link.told) == 1


def test_links_hold_until_all_is_drained_and_are_told_so_again_and_again(controlled):
    applying, link = controlled
    hold = step(Action.HOLD, level=1)
    link.rows = [("c2", "paused", "")] * 2 + [("c2", "drained", "")]
    applying._endpoints(1)
    with pytest.raises(CommandError):
        applying.look(hold)  # the other distributor is not there
    assert link.told == [Pause()]


def test_the_sockets_of_what_comes_are_where_the_running_file_is(controlled, tmp_path):
    applying, _ = controlled
    assert {plan.topology.control.base for plan in applying._plans.values()} == {str(tmp_path)}


def test_without_control_sockets_links_cannot_be_told(pair, logs):
    applying = Applying(logs, changed(pair, "name: pair", "name: other"), not_turned, not_paused)
    with pytest.raises(PlanError, match="no `control` sockets"):
        applying.look(step(Action.HOLD, level=1))


REPLICAS = """    id: 1
    controllers: [{metrics: "127.0.0.1:1"}]
    replicas: [{listen: "127.0.0.1:2", metrics: "127.0.0.1:3"}]
"""


def test_a_change_of_which_controllers_cannot_be_told_is_refused_before_its_first_step(pair, logs):
    plain = pair.file.read_text()
    pair.file.write_text(plain.replace("    id: 1\n", REPLICAS))
    file = changed(pair, "name: pair", "levels: {epoch: 1}\nname: pair")
    with pytest.raises(PlanError, match=r"cannot take the step 'level 1: .*of c1 have no `listen`"):
        Applying(logs, file, not_turned, not_paused)
    # To be only run it needs no commands.
    file.write_text(plain)
    assert [one.action for one in Applying(logs, file, not_turned, not_paused).steps] == [
        Action.SWITCH
    ]


def test_of_clusters_with_controllers_the_one_in_charge_retargets(pair, logs, monkeypatch):
    pair.file.write_text(pair.file.read_text().replace("    id: 1\n", REPLICAS))
    asked, failures = [], [QueryError("no answer from c1")]

    def turn(cluster, level, to):
        if failures:
            raise failures.pop()
        asked.append((cluster.name, level, to))

    applying = Applying(logs, changed(pair, "name: pair", "name: other"), turn, not_paused)
    (link,) = [one for one in applying._plan.links if one.source == "c1"]
    told = ToldByReplicas()
    monkeypatch.setattr(applies, "ask_replicas", lambda _: told)
    retarget = step(Action.RETARGET, "c1", 1, "c2")
    assert applying.look(retarget) == "no answer from c1"
    for target in ("c9", "c9"):
        told.rows[link] = protocol.LinkRow("c1", 1, 1, target, "serving", "", "", 0, 5)
        assert applying.look(retarget) == "c1 level 1 to serve c2"
    assert asked == [("c1", 1, "c2")], "once"
    told.rows[link] = protocol.LinkRow("c1", 1, 1, "c2", "serving", "", "", 0, 5)
    assert applying.look(retarget) == ""
    assert (
        Applying(logs, pair.file.with_name("new.yaml"), not_turned, not_paused).look(retarget) == ""
    )


class Pausing:
    """The controllers of a cluster, as they are told to pause levels, and what is paused there."""

    def __init__(self, monkeypatch):
        self.told, self.failures = [], []
        self.levels, self.waiting = frozenset(), []
        monkeypatch.setattr(applies, "paused_levels", lambda _, cluster: self.levels)
        monkeypatch.setattr(applies, "unpaused", lambda _, level: self.waiting)

    def __call__(self, cluster, demand):
        self.told.append((cluster.name, demand.level, demand.paused))
        if self.failures:
            raise self.failures.pop()


@pytest.fixture
def pausing(pair, monkeypatch):
    """The first cluster of the pair has controllers."""
    text = pair.file.read_text()
    pair.file.write_text(text.replace("    id: 1\n", REPLICAS))
    return Pausing(monkeypatch)


@pytest.fixture
def holding(pair, logs, pausing):
    """A change, and its step that lets level 1 hold."""
    file = changed(pair, "name: pair", "name: other")
    return Applying(logs, file, not_turned, pausing), step(Action.HOLD, level=1)


def test_of_clusters_with_controllers_the_one_in_charge_pauses(pair, holding, pausing, make_batch):
    pair.fill(2, make_batch([b"1"] * 3, partition=ORDERS))
    applying, hold = holding
    pausing.levels = None
    assert applying.look(hold) == "a controller in charge of c1 to answer"
    pausing.levels, pausing.waiting = frozenset(), ["c1 level 1 to pause"]
    pausing.failures.append(QueryError("no answer from c1"))
    assert applying.look(hold) == "no answer from c1"
    pausing.told.clear()
    assert applying.look(hold) == "c1 level 1 to pause"
    pausing.waiting.clear()
    assert applying.look(hold) == "c2 to answer"
    with pair.running(2):
        with pytest.raises(PlanError, match="no `control` sockets"):
            applying.look(hold)  # those of the other cluster
        assert pausing.told == [("c1", 1, True)], "once"
        (link,) = [one for one in applying._plan.links if one.source == "c1"]
        assert applying._sent == {link: {ORDERS: 2}}
        applying._sent[link][ORDERS] = 3
        assert applying.look(hold) == "c2, which lacks records of 1 partition"


def test_who_gives_up_lets_go_on_what_this_change_has_paused(holding, pausing):
    applying, hold = holding
    assert [*applying.give_up()] == [], "nothing is paused yet"
    pausing.waiting = ["c1 level 1 to pause"]
    applying.look(hold)
    pausing.told.clear()
    assert [*applying.give_up()] == ["c1 level 1 goes on"]
    assert pausing.told == [("c1", 1, False)]


def test_it_does_so_where_it_is_not_known_whether_a_level_is_paused(holding, pausing):
    applying, hold = holding
    pausing.failures.append(QueryError("no answer from c1"))
    applying.look(hold)
    assert [*applying.give_up()] == ["c1 level 1 goes on"]


def test_what_an_operator_had_paused_before_stays_so(holding, pausing):
    applying, hold = holding
    pausing.levels, pausing.waiting = frozenset({1}), ["c1 level 1 to pause"]
    applying.look(hold)
    pausing.told.clear()
    assert [*applying.give_up()] == [
        "c1 level 1 stays paused, as it was before: distributor controller unpause lets it go on"
    ]
    assert pausing.told == []


def test_what_cannot_be_let_go_on_is_told_with_the_cure(holding, pausing):
    applying, hold = holding
    pausing.waiting = ["c1 level 1 to pause"]
    applying.look(hold)
    for failure in (QueryError("no answer from c1"), CommandError("refused")):
        pausing.failures.append(failure)
        (said,) = applying.give_up()
        assert said == (
            f"c1 level 1 may stay paused ({failure}): give the command again, or distributor "
            "controller unpause HOST:PORT --level 1, at `listen` of a controller of c1"
        )


def test_once_the_new_file_is_in_place_nothing_goes_on_under_the_old_one(
    pair, holding, pausing, hangups, logs
):
    applying, hold = holding
    pausing.waiting = ["c1 level 1 to pause"]
    applying.look(hold)
    pausing.told.clear()
    switch = step(Action.SWITCH)
    applying.look(switch)
    assert [*applying.give_up()] == [
        "c1 level 1 stays paused until the new file runs: give the command again"
    ]
    PidFile.of(pair.file).note(logs)
    with pair.running():
        assert applying.look(switch) == ""
    assert [*applying.give_up()] == [], "in it the level is another one"
    assert pausing.told == []


@pytest.fixture
def moving(pair, logs, hangups, tmp_path, free_ports):
    """A change by which a store comes to c1 that takes half of the slots over."""
    (store,) = pair.topology.clusters[0].stores
    other = f"{{query: 'tcp://127.0.0.1:{free_ports(1)}', data: '{tmp_path / 'new'}'"
    entry = f"data: '{store.data}'}}"
    halves = f"data: '{store.data}', slots: '0-2047'}}\n      - {other}, slots: '2048-4095'}}"
    return Applying(logs, changed(pair, entry, halves), not_turned, not_paused)


def test_a_store_that_comes_is_told_to_join_before_the_new_file_is_there(
    moving, pair, tmp_path, hangups
):
    switch, move = moving.steps
    assert (switch.action, move.action, move.cluster) == (Action.SWITCH, Action.MOVE, "c1")
    assert moving.look(switch) == "`distributor up` to read its file again"
    with closing(LmdbLog(tmp_path / "new")) as log:
        assert KeptSlots(log, Slots(0)).keeping.kept == Slots(0)
    assert "cannot reach" in moving.look(move)


def test_who_begins_again_goes_on_with_moving(moving, pair, logs, hangups, monkeypatch):
    moving.look(moving.steps[0])
    again = Applying(logs, pair.file.with_name("new.yaml"), not_turned, not_paused)
    assert [one.action for one in again.steps] == [Action.SWITCH, Action.MOVE]
    again.finish()
    monkeypatch.setattr(applies, "still_moving", still_moving)
    by_hand = Applying(logs, pair.file.with_name("new.yaml"), not_turned, not_paused)
    assert [one.action for one in by_hand.steps] == [Action.MOVE]


@pytest.fixture
def interrupted(make_pair, logs, monkeypatch):
    """Stores that shared slots run with a file in which all keep all, and have not joined them."""
    monkeypatch.setattr(applies, "still_moving", still_moving)
    pair = make_pair(shares=(LOW, HIGH))
    pair.fill(1)
    pair.file.write_text(re.sub(", slots: '[^']*'", "", pair.file.read_text()))
    pair.topology = load(pair.file)
    PidFile.of(pair.file).note(logs)
    with pair.running(1):
        yield pair


def test_a_file_about_something_else_goes_on_with_a_move_that_was_interrupted(interrupted, logs):
    other = changed(interrupted, "name: pair", "name: other")
    applying = Applying(logs, other, not_turned, not_paused)
    assert [one.action for one in applying.steps] == [Action.SWITCH, Action.MOVE]


def test_a_copy_of_the_file_goes_on_with_it_also_where_all_are_to_keep_all(interrupted, logs):
    copy = changed(interrupted, "name: pair", "name: pair")
    (step,) = Applying(logs, copy, not_turned, not_paused).steps
    assert (step.action, step.cluster) == (Action.MOVE, "c1")


def test_a_gateway_does_not_meet_stores_that_do_not_keep_all_yet(interrupted, logs):
    gateway = "    id: 1\n    gateways: [{listen: '127.0.0.1:1'}]\n"
    applying = Applying(logs, changed(interrupted, "    id: 1\n", gateway), not_turned, not_paused)
    (refusal,) = applying.change.refusals
    assert (refusal.rule, applying.steps) == ("slots", ())


def test_before_a_store_is_taken_out_what_was_begun_is_brought_to_its_end(
    moving, pair, monkeypatch
):
    """It may keep more than its file says, and alone; the new file says how many are to have it."""
    before = replace(pair.topology.clusters[0], copies=2)
    gone = replace(before.stores[0], data="gone")
    clusters = (replace(before, stores=(*before.stores, gone)), pair.topology.clusters[1])
    moving._plans[False] = plan(replace(pair.topology, clusters=clusters))
    told = ["others to have it", "", "others to have commits", "", ""]
    asked = []
    monkeypatch.setattr(applies, "move_slots", lambda *stores: asked.append(stores) or told.pop(0))
    switch, text = moving.steps[0], pair.file.read_bytes()
    assert moving.look(switch) == "others to have it"
    assert moving.look(switch) == "others to have commits"
    assert asked[1:] == [(clusters[0],), (replace(before, copies=1), [gone], {})]
    assert pair.file.read_bytes() == text
    assert moving.look(switch) == "`distributor up` to read its file again"


def test_what_only_a_store_has_that_is_taken_out_is_said(
    pair, logs, hangups, make_batch, tmp_path, until
):
    move = Step(action=Action.MOVE, cluster="c1", text="")
    applying = Applying(logs, changed(pair, "name: pair", "name: other"), not_turned, not_paused)
    gone = replace(pair.topology.clusters[0].stores[0], data=str(tmp_path / "gone"))
    with closing(LmdbLog(tmp_path / "gone")) as log:
        log.append([make_batch([b"1"], 0)])
    before = replace(pair.topology.clusters[0], stores=(*pair.topology.clusters[0].stores, gone))
    old = replace(pair.topology, clusters=(before, pair.topology.clusters[1]))
    applying._plans[False] = plan(old)
    applying._switched = True
    with pair.running():
        waits = applying.look(move)
    assert waits.startswith("c1, which lacks records of 1 partition: c1 has them in")
    assert str(tmp_path / "gone") in waits
    # The others had it, retention took it, and they forgot it: given again, the step ends.
    pair.fill(1, make_batch([b"1"], 0))
    pair.trim(1, {ORDERS: 1})
    pair.forget(1, [ORDERS])
    with pair.running():
        until(lambda: not applying.look(move))
