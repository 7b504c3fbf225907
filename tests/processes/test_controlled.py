"""The shipped tree with controllers and replicas, as `distributor up` runs it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dafka import Consumer
from dafka.cluster import Cluster
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.operations.doctor import examine
from distributor.operations.replicas import unpaused
from distributor.operations.shares import UNWRITTEN
from distributor.operations.status import ask_links, status_of
from distributor.survey import survey, survey_group
from distributor.verify.compare import verify
from tests.processes.conftest import orders_at, run_distributor, shipped_controlled
from tests.support.json_outputs import rows_of
from tests.support.topologies import is_about_room
from topology import plan

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def topology_file(tmp_path, first_port):
    return shipped_controlled(tmp_path, first_port)


def run(*words):
    """Run a command; its exit code and what it printed."""
    code, said, complaint = run_distributor(*words)
    if code:
        log.warning("%s: exit code %d: %s", words, code, complaint)
    return code, said


def position(topology, cluster, group):
    """Where a group stands at a cluster, summed over partitions."""
    (view,) = [one for one in survey_group(topology, group) if one.cluster == cluster]
    return sum(commit.position or 0 for commit in view.commits.values())


def test_records_and_positions_arrive_and_go_on_when_a_replica_of_each_cluster_is_killed(
    up, topology_file, wait_until, traffic_at
):
    topology = load(topology_file)
    the_plan = plan(topology)

    def well():
        status = status_of(the_plan)
        return status.well and len(ask_links(the_plan).rows) == 8

    def told():
        return [up.log(f"cluster-1-{one}") for one in ("controller-1", "replica-1")]

    wait_until(well, "all links are written", evidence=told)
    assert run("status", topology_file)[0] == 0
    code, links = run("links", topology_file, "--json")
    assert (code, len(json.loads(links)["links"])) == (0, 8)
    traffic = [traffic_at(cluster.towers[0]) for cluster in topology.clusters]
    with Consumer(Cluster.declared(topology.clusters[0]), "orders", group="g") as consumer:
        for _ in range(100):
            assert consumer.poll(120) is not None
    wait_until(lambda: position(topology, "cluster-4", "g") >= 100, "the position is elsewhere")

    before = up.children()
    for cluster in topology.clusters:
        up.kill_one("distributor replica", f"--cluster {cluster.name} ")
    killed_s = time.monotonic()
    known = [one.records for one in survey(topology)]
    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "others write", evidence=told)
    log.info("written again after %.1f s", time.monotonic() - killed_s)
    wait_until(
        lambda: all(
            one.records > before + 500 for one, before in zip(survey(topology), known, strict=True)
        ),
        "copying goes on",
    )
    for thread in traffic:
        thread.finish()
    sent = sum(thread.sent for thread in traffic)
    for cluster in topology.clusters:
        (controller,) = cluster.controllers
        code, said = run("controller", "wait", controller.listen, "--timeout", "60", "--json")
        log.info("%s waited: %s", cluster.name, said)
        assert code == 0, said
        assert json.loads(said)["partitions"] >= len(traffic)
    code, said = run("controller", "explain", topology.clusters[0].controllers[0].listen, "orders")
    assert code == 0, said
    assert said.count("all is there") == 2

    def orders():
        return [sum(orders_at(topology, one.name).values()) for one in topology.clusters]

    wait_until(lambda: orders() == [sent] * 4, f"{sent} everywhere", evidence=orders)
    assert verify(topology, deep=True).equal
    wait_until(lambda: up.children().keys() == before.keys(), "every process runs again")
    wait_until(well, "all is well", evidence=told)
    points = status_of(the_plan).recovery
    assert [one for one in points if one.seconds is None] == [], "heartbeats are heard everywhere"

    def wrong():
        found = json.loads(run("doctor", topology_file, "--json")[1])["findings"]
        return [one for one in found if not is_about_room(one["what"])]

    wait_until(lambda: not wrong(), "nothing is wrong", evidence=told)
    pids = list(up.children().values())
    assert up.stop() == 0
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_what_is_away_is_told(up, topology_file, wait_until):
    the_plan = plan(load(topology_file))
    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "all links are written")
    # `up` would start them again.
    up.process.kill()
    up.process.wait(60)

    def silent():
        return [line for line in ask_links(the_plan).silent if " replica 127.0.0.1:" in line]

    wait_until(lambda: len(silent()) == 8, "children end with it", evidence=silent)
    assert ask_links(the_plan).rows == {}
    assert UNWRITTEN not in {link.state for link in status_of(the_plan).links}
    findings = examine(the_plan, processes_of(the_plan, topology_file), settle_s=0)
    about = {finding.about: finding.what for finding in findings}
    assert "no replica takes over from another" in about["cluster-1-controller-1"]
    assert "one less that can copy" in about["cluster-1-replica-2"]
    words = ("--cluster", "cluster-1", "--level", "3", "--to", "cluster-4")
    assert run("retarget", topology_file, *words)[0] == 1
    assert run("lost", topology_file, "--cluster", "cluster-1")[0] == 1, "nobody can be told"


def test_a_link_is_retargeted_under_load_and_stays_so(up, topology_file, wait_until, traffic_at):
    topology = load(topology_file)
    the_plan = plan(topology)
    place = topology.clusters[0].controllers[0].listen

    def targets():
        rows = ask_links(the_plan).rows.values()
        return sorted(row.target for row in rows if (row.source, row.level) == ("cluster-1", 3))

    def serves(target):
        wait_until(lambda: targets() == [target], f"it serves {target}", evidence=targets)

    def told():
        return [up.log("cluster-1-controller-1")]

    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "all links are written", evidence=told)
    serves("cluster-3")
    traffic = [traffic_at(cluster.towers[0]) for cluster in topology.clusters]
    words = ("--cluster", "cluster-1", "--level", "3", "--to", "cluster-4")
    code, said = run("retarget", topology_file, *words, "--json")
    assert (code, rows_of(said)) == (0, [{"target": "cluster-4", "level": 3, "topics": ""}])
    began_s = time.monotonic()
    serves("cluster-4")
    log.info("served %.1f s after the answer", time.monotonic() - began_s)
    up.kill_one("distributor controller run", "--cluster cluster-1 ")
    up.kill_one("distributor replica", "--cluster cluster-1 ")
    wait_until(lambda: status_of(the_plan).well, "all is well", evidence=told)
    serves("cluster-4")
    assert run("controller", "wait", place, "--timeout", "60")[0] == 0
    code, said = run("controller", "failback", place, "--level", "3", "--json")
    assert (code, json.loads(said)["target"]) == (0, "cluster-3")
    serves("cluster-3")
    for thread in traffic:
        thread.finish()
    code, said = run("wait", topology_file, "--timeout", "60")
    assert code == 0, said
    sent = sum(thread.sent for thread in traffic)
    for one in survey(topology):
        heads = [head + 1 for at, head in one.heads.items() if at.topic == "orders"]
        assert sum(heads) == sent
    assert verify(topology, deep=True).equal


def interrupted_as_it_pauses(up, file, logs, paused, wait_until):
    """Interrupt an `apply` while it waits for a frozen replica; what it complained of."""
    frozen = up.pid_of("distributor replica", "--cluster cluster-4 ")
    os.kill(frozen, signal.SIGSTOP)
    try:
        applying = subprocess.Popen(
            [sys.executable, "-m", "distributor", "apply", str(file), "--logs", str(logs)],
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(paused, "the level is paused", evidence=applying.poll)
        applying.send_signal(signal.SIGINT)
        _, complaint = applying.communicate(timeout=60)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert applying.returncode == 130, complaint
    return complaint


def test_a_paused_level_is_written_by_nobody_whoever_dies_and_levels_change_under_load(
    up, topology_file, tmp_path, wait_until, traffic_at
):
    topology = load(topology_file)
    the_plan = plan(topology)
    cluster = topology.clusters[0]
    place = cluster.controllers[0].listen

    def told():
        return [up.log(f"cluster-1-{one}") for one in ("controller-1", "replica-1", "replica-2")]

    # Of one alone the other would pull what it does not bring.
    pair = topology.clusters[:2]
    listens = [one.controllers[0].listen for one in pair]

    def paused():
        names = tuple(one.name for one in pair)
        return not [one for one in unpaused(the_plan, 3) if one.startswith(names)]

    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "all links are written", evidence=told)
    traffic = [traffic_at(cluster.towers[0])]
    wait_until(lambda: sum(orders_at(topology, "cluster-4").values()) > 50, "records arrive")
    (mine,) = orders_at(topology, "cluster-1")
    traffic.append(traffic_at(topology.clusters[2].towers[0]))

    assert [run("controller", "pause", one, "--level", "3")[0] for one in listens] == [0, 0]
    wait_until(paused, "nobody writes it", evidence=told)
    up.kill_one("distributor controller run", "--cluster cluster-1 ")
    up.kill_one("distributor replica", "--cluster cluster-1 ")
    wait_until(paused, "nor does who comes later", evidence=told)
    wait_until(lambda: run("controller", "status", cluster.controllers[0].metrics)[0] == 0, "back")
    before = orders_at(topology, "cluster-3")[mine]
    time.sleep(5)
    assert paused(), told()
    assert orders_at(topology, "cluster-3")[mine] == before
    assert orders_at(topology, "cluster-2")[mine] > before, "other levels go on"
    code, said = run("controller", "flows", cluster.controllers[0].metrics, "--json")
    why = [one["why"] for one in map(json.loads, said.splitlines()) if one["kind"] == "records"]
    assert (code, sorted(why)) == (0, ["", "paused by an operator"])
    assert "paused by an operator" in run("controller", "explain", place, "orders")[1]
    assert [run("controller", "unpause", one, "--level", "3")[0] for one in listens] == [0, 0]
    wait_until(lambda: orders_at(topology, "cluster-3")[mine] > before, "it goes on", evidence=told)

    # Levels of another epoch: apply pauses them all, from the root down, and the new file ends it.
    file = tmp_path / "next.yaml"
    file.write_text(topology_file.read_text().replace("tree:\n", "levels: {epoch: 1}\ntree:\n"))
    complaint = interrupted_as_it_pauses(up, file, tmp_path / "logs", paused, wait_until)
    assert "cluster-1 level 3 goes on" in complaint, complaint
    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "all are written again", evidence=told)
    began_s = time.monotonic()
    code, said = run("apply", file, "--logs", tmp_path / "logs", "--json")
    assert code == 0, said
    steps = [(one["action"], one["took_s"]) for one in json.loads(said)["steps"]]
    log.info("applied after %.1f s: %s", time.monotonic() - began_s, steps)
    assert [action for action, _ in steps] == ["hold", "hold", "switch"]
    the_plan = plan(load(topology_file))
    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "all links are written", evidence=told)
    for thread in traffic:
        thread.finish()
    code, said = run("wait", topology_file, "--timeout", "60")
    assert code == 0, said
    sent = sum(thread.sent for thread in traffic)
    for one in topology.clusters:
        assert sum(orders_at(topology, one.name).values()) == sent
    assert verify(topology, deep=True).equal


def test_of_a_cluster_that_is_lost_the_others_have_everything(
    up, topology_file, wait_until, traffic_at
):
    topology = load(topology_file)
    the_plan = plan(topology)
    wait_until(lambda: len(ask_links(the_plan).rows) == 8, "all links are written")
    lost, *left = (topology.clusters[index] for index in (2, 0, 1, 3))
    traffic = [traffic_at(one.towers[0]) for one in left]
    wait_until(lambda: sum(orders_at(topology, lost.name).values()) > 100, "records arrive there")

    # `up` would start them again; so would nobody on a host that is gone.
    mine = (f"--cluster {lost.name} ", lost.towers[0], lost.stores[0].query)
    os.kill(up.process.pid, signal.SIGSTOP)
    try:
        killed = [pid for words, pid in up.children().items() if any(one in words for one in mine)]
        assert len(killed) == 5
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        began_s = time.monotonic()
        code, said = run("lost", topology_file, "--cluster", lost.name, "--json")
        told = json.loads(said)
        log.info("told after %.1f s: %s", time.monotonic() - began_s, told)
        assert (code, told["untold"], told["unreachable"], told["gone"]) == (0, [], [], [])
        assert told["age_s"] is not None
        names = [one.name for one in left]

        def targets():
            rows = ask_links(the_plan).rows.values()
            return {(row.source, row.level): row.target for row in rows}

        wait_until(
            lambda: {targets().get((name, 3)) for name in names[:2]} == {"cluster-4"},
            "nobody aims at it",
            evidence=targets,
        )
        for thread in traffic:
            thread.finish()
        sent = sum(thread.sent for thread in traffic)
        wait_until(
            lambda: [sum(orders_at(topology, one).values()) for one in names] == [sent] * 3,
            f"{sent} on all others",
            evidence=targets,
        )
        log.info("all is there %.1f s after the kill", time.monotonic() - began_s)
    finally:
        os.kill(up.process.pid, signal.SIGCONT)
    # It comes back with its disk after all, and gets what it lacks.
    wait_until(
        lambda: sum(orders_at(topology, lost.name).values()) == sent, "it is filled", 180, targets
    )
    assert verify(topology, deep=True).equal


def test_a_cluster_is_lost_under_load_and_comes_back_with_nothing_lost(topology_file, tmp_path):
    words = ("drill", topology_file, "--rate", "50", "--down", "8", "--logs", tmp_path / "logs")
    code, told = run(*words)
    assert code == 0, told
    assert "20 processes are up" in told
    assert "5 processes killed with signal 9" in told
    assert "lost = 0, duplicated = 0" in told
