"""Each kind of process of a target, broken in each way: what happens, and what the tools say of it.

With `--every-fault` each by itself, with the times that links have by default; how long records
have not come to the cluster behind is measured, told as a table, and bounded.
"""

from __future__ import annotations

import os
import time
from contextlib import closing

import pytest

from distributor.link.target import NEW, TargetSettings
from distributor.verify.compare import verify
from tests.support.arrivals import Arrivals
from tests.support.broken_tree import BrokenTree

pytestmark = [pytest.mark.net, pytest.mark.slow]

TOWER, STORE, RELAY, ALL = "c2-tower-1", "c2-store-1", "c2-level-1", "c2"

ONE_WAY = ("unheard", "deaf")
"""By other clusters it is not heard, or it does not hear them."""

FAULTS = [
    *(
        (process, kind)
        for process in (TOWER, STORE, RELAY)
        for kind in ("killed", "frozen", "slow", *ONE_WAY)
    ),
    (STORE, "full"),
    *((ALL, kind) for kind in ("killed", "frozen", *ONE_WAY)),
]

SHORT = {
    False: [(STORE, "killed"), (STORE, "full"), (RELAY, "frozen"), (STORE, "unheard")],
    True: [(TOWER, "frozen"), (STORE, "frozen"), (RELAY, "killed"), (ALL, "deaf")],
}
"""What is broken, one after the other, unless `--every-fault` is given."""

SHORT_LINKS = {"failover_after_ms": 3_000, "repair_after_ms": 4_000}

KILLED_S_MAX, OTHER_S_MAX = 5.0, 8.0
"""How long records may stay away from the cluster behind, with the times that links have: where
what a link talks to is killed, and in all other cases. Beside that, the link's own process may take
its time to start again."""


NEW_S = NEW * TargetSettings().failover_after_ms / 1_000 + 1
"""A link that has just begun leaves a target in half the time."""

INNOCENT = {"c1-tower-1", "c1-store-1", "c3-tower-1", "c3-store-1"}


def pytest_generate_tests(metafunc):
    every = metafunc.config.getoption("--every-fault")
    cases = [
        pytest.param(faults, restarted, id=", ".join(map(" ".join, faults)) + _LINK[restarted])
        for restarted in (False, True)
        for faults in ([[one] for one in FAULTS] if every else [SHORT[restarted]])
    ]
    metafunc.parametrize(("faults", "restarted"), cases)


_LINK = {False: ", link as it was", True: ", link begun anew"}


@pytest.fixture
def every(request):
    return request.config.getoption("--every-fault")


@pytest.fixture(scope="module")
def stalls(request):
    """Rows of what was measured, told at the end."""
    rows = []
    yield rows
    plugins = request.config.pluginmanager
    terminal = plugins.getplugin("terminalreporter")
    if terminal is not None:  # a worker of xdist has none
        head = ("fault", "nothing came for s", "latest by s", "link away s", "load")
        with plugins.getplugin("capturemanager").global_and_fixture_disabled():
            for row in (head, *rows):
                terminal.write_line(f"| {' | '.join(row)} |")


@pytest.fixture
def tree(topology_file, tmp_path, every):
    links = {} if every else SHORT_LINKS
    with closing(BrokenTree(topology_file, tmp_path / "logs", links)) as tree:
        yield tree


def test_a_targets_fault_is_got_round_and_told_as_it_is(
    tree, faults, restarted, every, stalls, traffic_at
):
    began_s = time.monotonic()
    with closing(Arrivals(tree.cluster("c3"), "orders")) as arrivals:
        traffic = traffic_at(tree.cluster("c1"))
        tree.until(lambda: arrivals, "records come to c3")
        if every and not restarted:
            tree.until(lambda: time.monotonic() - began_s > NEW_S, "links have run for a while")
        for process, kind in faults:
            name = f"{process} {kind}{_LINK[restarted]}"
            measured = broken(tree, arrivals, process, kind, restarted=restarted)
            stalls.append((name, *(f"{one:.1f}" for one in (*measured, os.getloadavg()[0]))))
            if every:
                stall_s, _, away_s = measured
                gone = kind == "killed" and process != RELAY
                assert stall_s - away_s < (KILLED_S_MAX if gone else OTHER_S_MAX)
        traffic.finish()
    everything = dict.fromkeys(("c1", "c2", "c3"), traffic.sent)
    tree.until(lambda: verify(tree.topology, settle_s=0).clusters == everything, "all have all")
    assert verify(tree.topology, deep=True).equal


class Words:
    """What the tools say of a fault, and whether that is enough."""

    def __init__(self, tree, process, kind):
        self._tree = tree
        # A slow tower does its work, and a way that is cut is not seen where nothing has to go.
        self._named = (process, kind) == (TOWER, "slow")
        self._not_well = process == TOWER or (process == RELAY and kind in ONE_WAY)
        self._accused = {process} if kind in ("killed", "frozen", "full") else {process, "c2"}

    def listen(self):
        self._not_well = self._not_well or not self._tree.status().well
        self._named = self._named or any(self._accused & one for one in self._tree.accused())
        return self._named and self._not_well


def broken(tree, arrivals, process, kind, *, restarted):
    """Break it; see that others go on, that it is named, and that it is well again.

    Returns for how long nothing has come to the cluster behind, how late records were there, and
    how long the link's process was away.
    """
    fault = f"{process} {kind}"
    tree.aim_at_c2()
    with tree.broken(process, kind):
        began_s = time.monotonic()
        away_s = tree.restarted("c1-level-2") if restarted else 0.0
        words = Words(tree, process, kind)

        def goes_on():
            words.listen()  # what is got round may have nothing to do any more, and look well
            return arrivals.fresh(began_s + 2, 2)

        tree.until(goes_on, f"{fault}: c3 goes on")
        measured = arrivals.stall_s(began_s), arrivals.oldest_s(began_s), away_s
        tree.until(words.listen, f"{fault}: it is said")
        assert not any(one <= INNOCENT for one in tree.accused() if one)
    tree.until(lambda: not tree.findings() and tree.status().well, f"{fault}: all is well")
    return measured
