from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from dafka.errors import MisuseError
from dafka.model import Partition
from distributor.cli import controller_asks, steer
from distributor.cli.main import app
from distributor.control import protocol
from distributor.control.agent import ControlServer
from distributor.errors import CommandError, PlanError
from distributor.link.events import Stop, StopReason
from distributor.link.target import Retarget
from distributor.local.pidfile import PidFile
from distributor.local.processes import control_endpoint
from distributor.operations.apply import Applying, alone
from distributor.operations.loss import Gone, Loss
from tests.support.json_outputs import rows_of
from topology import plan
from topology.model import Links


def invoke(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*words])


class FakeLink:
    """A link that changes its target at once, or never."""

    def __init__(self, source: str, target: str, *, obeys: bool = True):
        self.targets = (target, "c9")
        self._source = source
        self._target = target
        self._next = ""
        self._obeys = obeys
        self._looks = 0

    def tell(self, event):
        if isinstance(event, Retarget):
            self._next = event.target

    def row(self):
        row = protocol.LinkRow(
            *(self._source, 1, int(self._source == "c1"), self._target),
            *("serving", self._next, "c9 is slow", 0, 5),
        )
        self._looks += bool(self._next)
        if self._next and self._looks > 2:
            if self._obeys:
                self._target = self._next
            self._next = ""
        return row

    def remembered(self, cluster):
        return None


@pytest.fixture
def controlled(make_pair):
    """A pair with control sockets, and a function that serves one with a link."""
    pair = make_pair("control: {}")
    with ExitStack() as stack:

        def serve(cluster, link, share=0):
            (distributor,) = [
                one
                for one in plan(pair.topology).distributors
                if (one.cluster, one.share) == (cluster, share)
            ]
            server = ControlServer(control_endpoint(pair.topology, distributor), [link])
            stack.callback(server.close)

        pair.serve = serve
        yield pair


@pytest.mark.net
def test_links_shows_where_every_link_aims(controlled):
    controlled.serve("c1", FakeLink("c1", "c2"))
    controlled.serve("c2", FakeLink("c2", "c1"))
    found = invoke("links", str(controlled.file), "--json")
    assert found.exit_code == 0
    rows = json.loads(found.stdout)["links"]
    assert [(row["source"], row["target"], row["stall_ms"]) for row in rows] == [
        ("c1", "c2", 5),
        ("c2", "c1", 5),
    ]
    assert "where links aim" in invoke("links", str(controlled.file)).stdout


@pytest.mark.net
def test_links_fails_where_one_does_not_answer(controlled):
    controlled.serve("c1", FakeLink("c1", "c2"))
    found = invoke("links", str(controlled.file))
    assert found.exit_code == 1
    assert "c2 level 1" in found.stdout


def retarget(pair, *words):
    return invoke("retarget", str(pair.file), "--cluster", "c1", "--level", "1", *words)


@pytest.mark.net
def test_retarget_waits_for_the_end_and_tells_the_stall(controlled):
    controlled.serve("c1", FakeLink("c1", "c2"))
    found = retarget(controlled, "--to", "c9")
    assert found.exit_code == 0, found.output
    assert found.stdout == "c1 level 1 serves c9; it stood still 5 ms\n"
    again = retarget(controlled, "--to", "c9", "--json")
    assert json.loads(again.stdout)["target"] == "c9"


@pytest.mark.net
def test_retarget_fails_when_the_barrier_is_not_met(controlled):
    controlled.serve("c1", FakeLink("c1", "c2", obeys=False))
    found = retarget(controlled, "--to", "c9")
    assert isinstance(found.exception, CommandError)
    assert "nothing has changed: c9 is slow" in str(found.exception)


@pytest.fixture
def halves(controlled):
    """The same with links in two shares."""
    controlled.topology = replace(controlled.topology, links=Links(shares=2))
    controlled.file.write_text(controlled.file.read_text() + "\nlinks: {shares: 2}\n")
    return controlled


@pytest.mark.net
def test_a_link_in_shares_is_one_and_each_share_is_commanded(halves):
    halves.serve("c1", FakeLink("c1", "c2"), 0)
    halves.serve("c1", FakeLink("c1", "c2"), 1)
    halves.serve("c2", FakeLink("c2", "c1"), 1)
    found = invoke("links", str(halves.file), "--json")
    told = json.loads(found.stdout)
    assert [(row["source"], row["state"]) for row in told["links"]] == [
        ("c1", "serving"),
        ("c2", "unwritten"),
    ]
    assert told["links"][1]["waits_for"] == "a distributor to write share 0/2"
    assert [line.partition(":")[0] for line in told["unreachable"]] == ["c2 level 1 share 0/2"]
    found = retarget(halves, "--to", "c9")
    assert found.exit_code == 0, found.output
    told = json.loads(invoke("links", str(halves.file), "--json").stdout)
    assert [row["target"] for row in told["links"]] == ["c9", "c1"]


@pytest.mark.net
def test_a_share_that_is_not_drained_is_counted(halves):
    halves.serve("c1", FakeLink("c1", "c2"), 0)
    halves.serve("c1", FakeLink("c1", "c2", obeys=False), 1)
    found = retarget(halves, "--to", "c9")
    assert isinstance(found.exception, CommandError)
    assert "not drained in time, 1 share of 2 did: c9 is slow" in str(found.exception)


@pytest.mark.net
def test_shares_that_answer_obey_and_the_others_are_told_of(halves):
    link = FakeLink("c1", "c2")
    halves.serve("c1", link, 1)
    found = retarget(halves, "--to", "c9")
    assert isinstance(found.exception, CommandError)
    assert "1 share of 2 did, give the command where the others are: dist" in str(found.exception)
    assert link.row().target == "c9"


class OvertakenLink(FakeLink):
    """One that has these partitions to pass over."""

    def __init__(self, *stops):
        super().__init__("c1", "c2")
        self._stops = stops

    holding = False

    def pass_over(self, topic):
        stops = [Stop(StopReason.OVERTAKEN, first, end) for first, end in self._stops]
        return {Partition(topic, f"{stop.first}"): stop for stop in stops}


@pytest.mark.net
def test_of_shares_those_go_on_that_have_something_to_pass_over(halves):
    words = ("--cluster", "c1", "--level", "1", "--topic", "orders", "--json")
    halves.serve("c1", OvertakenLink(), 0)
    halves.serve("c1", OvertakenLink((3, 5), (1, 2)), 1)
    found = invoke("resume", str(halves.file), *words)
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert (told["partitions"], told["records"]) == (2, 3)


@pytest.mark.net
def test_nothing_is_passed_over_where_a_share_does_not_answer(halves):
    link = OvertakenLink((3, 5))
    link.pass_over = None
    halves.serve("c1", link, 0)
    words = ("--cluster", "c1", "--level", "1", "--topic", "orders")
    found = invoke("resume", str(halves.file), *words)
    assert isinstance(found.exception, CommandError)
    assert "1-of-2" in str(found.exception)


@pytest.mark.net
def test_a_share_that_refuses_is_told_where_others_go_on(halves):
    """It was hidden, and who asked believed that all of the topic went on."""
    held = OvertakenLink((3, 5))
    held.holding = True
    halves.serve("c1", held, 0)
    halves.serve("c1", OvertakenLink((1, 2)), 1)
    words = ("--cluster", "c1", "--level", "1", "--topic", "orders")
    found = invoke("resume", str(halves.file), *words)
    assert isinstance(found.exception, CommandError)
    assert "a link is on hold" in str(found.exception)
    assert "other shares go on with 1 partition" in str(found.exception)


@pytest.mark.net
def test_where_no_share_has_it_is_refused(halves):
    for share in (0, 1):
        halves.serve("c1", OvertakenLink(), share)
    words = ("--cluster", "c1", "--level", "1", "--topic", "orders")
    found = invoke("resume", str(halves.file), *words)
    assert isinstance(found.exception, CommandError)
    assert "no partition of topic 'orders' is overtaken here" in str(found.exception)


@pytest.mark.net
def test_retarget_refuses_what_the_plan_does_not_hold(controlled):
    found = invoke(
        "retarget", str(controlled.file), *("--cluster", "c7", "--level", "1", "--to", "c2")
    )
    assert isinstance(found.exception, PlanError)
    assert "there are c1 level 1, c2 level 1" in str(found.exception)


@pytest.mark.net
def test_without_control_sockets_there_is_nobody_to_tell(pair):
    found = invoke("links", str(pair.file))
    assert isinstance(found.exception, PlanError)
    assert "no `control` sockets" in str(found.exception)


@pytest.mark.net
def test_lost_tells_what_nobody_has(controlled, monkeypatch):
    loss = Loss("c1", told=1, age_s=2.5, gone=[Gone("orders", "AB" * 16, 3, 1_200)])
    monkeypatch.setattr(steer, "declare_lost", lambda the_plan, cluster, turn: loss)
    found = invoke("lost", str(controlled.file), "--cluster", "c1")
    assert found.exit_code == 1
    assert (
        "1 distributors or controllers have left c1; it was last heard of 2.5 s ago" in found.stdout
    )
    assert "'orders'/ABABABAB: 1,200 from 3 on" in found.stdout
    found = invoke("lost", str(controlled.file), "--cluster", "c1", "--json")
    assert json.loads(found.stdout)["gone"][0]["first"] == 3


@pytest.mark.net
def test_lost_of_nothing_is_well(controlled, monkeypatch):
    monkeypatch.setattr(
        steer, "declare_lost", lambda the_plan, cluster, turn: Loss(cluster, told=1)
    )
    found = invoke("lost", str(controlled.file), "--cluster", "c1")
    assert found.exit_code == 0
    assert "last heard of never" in found.stdout


@pytest.mark.net
@pytest.mark.parametrize(
    ("untold", "unreachable", "name"),
    [(["c2 level 1: no answer"], [], "not told: c2 level 1"), ([], ["c2"], "not answer: c2")],
)
def test_lost_says_that_it_cannot_say_what_is_gone(
    controlled, monkeypatch, untold, unreachable, name
):
    loss = Loss("c1", untold=untold, unreachable=unreachable)
    monkeypatch.setattr(steer, "declare_lost", lambda the_plan, cluster, turn: loss)
    found = invoke("lost", str(controlled.file), "--cluster", "c1")
    assert found.exit_code == 1
    assert "it cannot be said which records are on no other cluster" in found.stdout
    assert "0 records" not in found.stdout
    assert name in found.stdout
    told = json.loads(invoke("lost", str(controlled.file), "--cluster", "c1", "--json").stdout)
    assert told["gone"] is None
    loss.gone = [Gone("orders", "AB" * 16, 3, 1_200)]
    found = invoke("lost", str(controlled.file), "--cluster", "c1")
    assert "as far as the others know, 1,200 records in 1 partition are" in found.stdout
    told = json.loads(invoke("lost", str(controlled.file), "--cluster", "c1", "--json").stdout)
    assert told["gone"][0]["records"] == 1_200


@pytest.mark.net
def test_lost_names_the_clusters_there_are(controlled):
    found = invoke("lost", str(controlled.file), "--cluster", "c7")
    assert isinstance(found.exception, PlanError)
    assert "there are c1, c2" in str(found.exception)


@pytest.fixture
def apply(pair, tmp_path):
    """Run the command with a change of the pair that runs."""
    logs = tmp_path / "logs"
    logs.mkdir()
    PidFile.of(pair.file).note(logs)

    def run(old, new, *words):
        file = pair.file.with_name("new.yaml")
        file.write_text(pair.file.read_text().replace(old, new))
        words = ("apply", str(file), "--logs", str(logs), *words)
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, words)

    return run


def answers(monkeypatch, *found):
    """What looks at a step find, one after the other."""
    left = list(found)
    monkeypatch.setattr(Applying, "look", lambda self, step: left.pop(0))


@pytest.mark.net
@pytest.mark.slow
def test_every_step_is_waited_for_and_told(apply, monkeypatch):
    answers(monkeypatch, "a while", "")
    found = apply("name: pair", "name: other")
    assert (found.exit_code, found.stdout) == (0, "applied\n")
    assert re.search(r"1 of 1  run the new file  \([\d.]+ s\)", found.stderr)
    answers(monkeypatch, "")
    told = json.loads(apply("name: pair", "name: other", "--json").stdout)
    assert told["applied"]
    assert [step["action"] for step in told["steps"]] == ["switch"]


@pytest.mark.net
def test_who_waits_says_for_what_and_for_how_long(apply, monkeypatch):
    answers(monkeypatch, "c2 to answer", "")
    told = apply("name: pair", "name: other").stderr
    assert re.search(r"run the new file: waits for c2 to answer \(\d+ s of 600\)", told)


@pytest.mark.net
def test_of_several_hosts_one_does_its_part(pair):
    words = ("apply", str(pair.file), "--host", "127.0.0.1", "--running", str(pair.file))
    assert CliRunner().invoke(app, words).stdout == "nothing has to be done\n"
    found = CliRunner().invoke(app, (*words[:3], "elsewhere", *words[4:]))
    assert "is on host 'elsewhere': there are 127.0.0.1" in str(found.exception)


@pytest.mark.net
def test_while_one_is_under_way_another_is_refused(apply, tmp_path):
    with alone(tmp_path / "logs"):
        found = apply("name: pair", "name: other")
    assert isinstance(found.exception, CommandError)
    assert "one at a time" in str(found.exception)


@pytest.mark.net
def test_the_same_needs_nothing(apply):
    assert apply("name: pair", "name: pair").stdout == "nothing has to be done\n"


@pytest.mark.net
def test_a_change_that_loses_records_is_refused_with_the_rule(apply):
    found = apply("level: 1", "level: 2")
    assert found.exit_code == 1
    assert "relabel: the branch over c1, c2 has level 1, would have 2" in found.stderr
    (told,) = rows_of(apply("level: 1", "level: 2", "--json").stdout)
    assert told == {"applied": False, "steps": [], "refused": ["relabel"]}


@pytest.mark.net
def test_a_step_without_end_is_given_up(apply, monkeypatch):
    answers(monkeypatch, *["c2 to answer"] * 100_000)
    found = apply("name: pair", "name: other", "--patience-s", "1", "--json")
    assert isinstance(found.exception, CommandError)
    assert "given up after 1 s of waiting for c2 to answer" in str(found.exception)
    (told,) = rows_of(found.stdout)
    assert told == {
        "applied": False,
        "steps": [],
        "waits_for": "c2 to answer",
    }


@pytest.mark.net
@pytest.mark.parametrize(
    ("found", "code"),
    [(["c2 to answer"] * 100_000, 1), ([CommandError("no")], 1), ([KeyboardInterrupt()], 130)],
    ids=["time is up", "refused", "interrupted"],
)
def test_an_apply_that_does_not_come_to_its_end_says_what_becomes_of_pauses(
    apply, monkeypatch, found, code
):
    def look(self, step):
        answer = found.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr(Applying, "look", look)
    monkeypatch.setattr(Applying, "give_up", lambda self: iter(["c1 level 1 goes on"]))
    told = apply("name: pair", "name: other", "--patience-s", "1")
    assert told.stderr.endswith("c1 level 1 goes on\n")
    assert told.exit_code == code


@pytest.mark.net
def test_one_that_does_gives_up_nothing(apply, monkeypatch):
    def give_up(self):
        raise AssertionError

    answers(monkeypatch, "")
    monkeypatch.setattr(Applying, "give_up", give_up)
    assert apply("name: pair", "name: other").stdout == "applied\n"


SHIPPED = str(Path(__file__).parents[3] / "config" / "controlled.yaml")


@pytest.mark.net
def test_what_replicas_run_is_not_commanded_at_sockets(run):
    words = ("--cluster", "cluster-1", "--level", "3", "--topic", "orders")
    code, _, complaint = run("resume", SHIPPED, *words)
    assert code == 1
    assert "no answer from 127.0.0.1:17308" in complaint


@pytest.mark.net
def test_of_clusters_with_controllers_these_are_told_what_is_lost(run):
    code, said, _ = run("lost", SHIPPED, "--cluster", "cluster-3", "--json")
    told = json.loads(said)
    assert (code, told["told"], told["gone"]) == (1, 0, None)
    assert sum("replica" in line for line in told["untold"]) == 6
    assert sum(line.startswith("cluster-1: no answer from") for line in told["untold"]) == 1


class AskedClient:
    """A controller that notes where it is asked, and with which certificates."""

    asked: ClassVar[list] = []

    def __init__(self, place, certificates=None):
        self.asked.append((place, certificates and certificates.certificate))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing is open."""

    def retarget(self, level, to, timeout_s):
        return []

    def resume(self, level, topic, timeout_s):
        return protocol.PassedOver(1, 2)


@pytest.mark.net
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("retarget", ("--level", "3", "--to", "cluster-4")),
        ("resume", ("--level", "3", "--topic", "orders")),
        ("lost", ()),
    ],
)
def test_controllers_are_told_with_certificates(what, words, tmp_path, monkeypatch):
    def declare(the_plan, cluster, turn):
        turn(the_plan.topology.cluster(cluster), 3, "cluster-4")
        return Loss(cluster, told=1)

    monkeypatch.setattr(steer, "declare_lost", declare)
    monkeypatch.setattr(controller_asks, "OperatorClient", AskedClient)
    monkeypatch.setattr(AskedClient, "asked", [])
    for name in ("one", "key", "ca"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o600)
    call = (what, SHIPPED, "--cluster", "cluster-1", *words)
    options = ("--certificate", "--certificate-key", "--controller-ca")
    files = [str(tmp_path / name) for name in ("one", "key", "ca")]
    shown = [word for pair in zip(options, files, strict=True) for word in pair]
    for one in ((), shown):
        assert invoke(*call, *one).exit_code == 0
    assert AskedClient.asked == [("127.0.0.1:17308", None), ("127.0.0.1:17308", b"one")]
    assert isinstance(invoke(*call, *shown[:2]).exception, MisuseError)
