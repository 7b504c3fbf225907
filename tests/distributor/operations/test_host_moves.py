"""What one of several hosts has to do with slots that move; stores are real, in this process."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dafka.cluster import Cluster
from dafka.errors import StorageError
from dafka.model import ALL_SLOTS, Partition, Slots, address_in
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from dafka.query.slot_steps import slots_in
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.errors import PlanError
from distributor.operations.host_moves import HostMoves
from topology import load

pytestmark = pytest.mark.net

HERE, THERE = "127.0.0.1", "127.0.0.2"
ORDERS = [Partition("orders", address_in("AB" * 16, half, 2)) for half in (0, 1)]


@pytest.fixture
def declared(tmp_path, free_ports):
    """A function that writes a file of one cluster with stores, each by its host and slots."""
    tower = free_ports(5)  # which also takes the next one

    def declared(name, *stores):
        entries = "".join(
            f"\n      - {{query: 'tcp://{host}:{tower + 2 + number}', data: '{tmp_path}/{number}', "
            f"slots: '{slots}'}}"
            for number, (host, slots) in enumerate(stores)
        )
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            "version: 1\nname: hosts\nclusters:\n  - name: c1\n    id: 1\n"
            f"    towers: ['tcp://127.0.0.1:{tower}']\n    stores:{entries}\ntree: c1\n"
        )
        return file

    return declared


@pytest.fixture
def started():
    """A function that runs the stores of some hosts as a file has them, with their tower."""
    with ExitStack() as stack:

        def started(file, *hosts):
            (cluster,) = load(file).clusters
            place = Cluster.declared(cluster)
            for spec in cluster.stores:
                if any(host in spec.query for host in hosts):
                    told = {"slots": Slots.of(spec.slots), "durability": Durability.OS}
                    stack.enter_context(Store(Path(spec.data), place, query=spec.query, **told))

        yield started


def kept(directory):
    with closing(LmdbLog(directory)) as log:
        return KeptSlots(log, ALL_SLOTS).keeping.kept


@pytest.fixture
def coming(declared):
    """The file that runs, and one in which a store on the other host takes half of the slots."""
    old = declared("old", (HERE, "0-4095"))
    return old, declared("new", (HERE, "0-2047"), (THERE, "2048-4095"))


def test_each_host_prepares_the_disks_of_its_own_stores(coming, tmp_path):
    here, there = (HostMoves(host, *coming) for host in (HERE, THERE))
    (step,) = here.steps
    here.look(step)
    assert not (tmp_path / "1").exists()
    there.look(step)
    assert kept(tmp_path / "1") == Slots(0)


def test_what_is_to_be_started_is_said_with_the_host_and_the_command(coming, started):
    old, new = coming
    started(old, HERE)
    here, there = (HostMoves(host, *coming) for host in (HERE, THERE))
    first, second = (f"{one.query}" for one in load(new).clusters[0].stores)
    said = here.look(here.steps[0])
    assert f"{first} to be started with slots 0-2047 (start it here as {new} has it)" in said
    assert second in said
    assert "(on 127.0.0.2 run `distributor apply --host 127.0.0.2` with this file" in said
    assert "(on 127.0.0.1 run `distributor apply --host 127.0.0.1`" in there.look(there.steps[0])


def test_a_store_that_runs_already_is_left_alone(coming, started, tmp_path):
    started(coming[1], THERE)
    there = HostMoves(THERE, *coming)
    assert "start it here" not in there.look(there.steps[0])


def test_a_disk_is_prepared_once_then_it_is_the_stores(coming, tmp_path):
    there = HostMoves(THERE, *coming)
    there.look(there.steps[0])
    with closing(LmdbLog(tmp_path / "1")):
        assert "cannot reach" in there.look(there.steps[0])
        with pytest.raises(StorageError):
            HostMoves(THERE, *coming).look(there.steps[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "stores",
    [((HERE, "0-4095"), (HERE, "0-2047"), (THERE, "2048-4095")), ((HERE, "0-4095"),) * 2],
    ids=["slots are shared out", "all keep all"],
)
def test_a_store_ends_when_others_keep_its_slots_and_what_only_it_has_is_said(
    declared, make_batch, tmp_path, stores
):
    *stay, (_, slots) = stores
    old, new = declared("old", *stay, (THERE, slots)), declared("new", *stay)
    moves = HostMoves(THERE, old, new)
    (step,) = moves.steps
    with ExitStack() as stack:
        (cluster,) = load(old).clusters
        place = Cluster.declared(cluster)
        stack.enter_context(Tower(place))
        *_, ending = [
            stack.enter_context(
                Store(Path(one.data), place, query=one.query, slots=Slots.of(one.slots))
            )
            for one in cluster.stores
        ]
        assert f"{cluster.stores[-1].query} to end (stop it here" in moves.look(step)
        ending.close()
        with closing(LmdbLog(tmp_path / f"{len(stay)}")) as log:
            log.append([make_batch([b"1"], 0)])
        said = moves.look(step)
        assert said.startswith("c1, which lacks records of 1 partition: c1 has them in")
        assert said.endswith(f"start it as {old} has it to bring it back")
        assert HostMoves(HERE, old, new).look(step) == "", "that is the other host's business"


@pytest.mark.slow
def test_a_store_is_not_ended_while_others_do_not_keep_its_slots(declared, started):
    old = declared("old", (HERE, "0-4095"), (HERE, "0-2047"), (THERE, "2048-4095"))
    new = declared("new", (HERE, "0-4095"), (HERE, "0-2047"))
    less = declared("less", (HERE, "0-2047"), (HERE, "0-2047"), (THERE, "2048-4095"))
    started(less, HERE)
    started(old, THERE)
    moves = HostMoves(THERE, old, new)
    said = moves.look(moves.steps[0])
    assert "1 others to keep slots 2048-4095, which tcp://127.0.0.2" in said


@pytest.fixture
def interrupted(declared, started, make_batch, tmp_path):
    """Of two stores one has not joined yet what the other keeps, which the next file takes out.

    They have not met: there is no tower.
    """
    sharing = declared("sharing", (HERE, "0-4095"), (THERE, "2048-4095"))
    halves = [range(2_048)], [range(2_048, 4_096)]
    for number, half in enumerate(halves):
        with closing(LmdbLog(tmp_path / str(number))) as log:
            KeptSlots(log, Slots.of(half))
            log.append([make_batch([b"1"], 0, ORDERS[number])])
    return sharing, declared("alone", (HERE, "0-4095"))


def test_a_store_is_not_told_to_keep_what_only_one_has_that_is_to_end(
    interrupted, started, tmp_path
):
    started(interrupted[0], HERE, THERE)
    here, there = (HostMoves(host, *interrupted) for host in (HERE, THERE))
    first = load(interrupted[1]).clusters[0].stores[0].query
    lacking = f"{first} to have {ORDERS[1]} up to 1"
    assert here.look(here.steps[0]) == lacking
    said = there.look(there.steps[0])
    assert said.startswith("1 others to keep slots 2048-4095, which tcp://127.0.0.2")
    assert said.endswith(lacking), "that host goes on moving, too"
    with StoreClient(first) as client:
        assert slots_in(client.slots().kept) == Slots.of([range(2_048)])


def test_one_that_was_ended_too_soon_is_waited_for(interrupted, started, tmp_path):
    started(interrupted[0], HERE)
    here = HostMoves(HERE, *interrupted)
    gone = load(interrupted[0]).clusters[0].stores[1].query
    assert here.look(here.steps[0]) == f"{gone} to answer: none that does keeps slots 2048-4095"


def test_with_the_file_that_runs_what_was_begun_goes_on(coming):
    old, new = coming
    assert [one.cluster for one in HostMoves(HERE, new, new).steps] == ["c1"]
    assert HostMoves(HERE, old, old).steps == ()
    moves = HostMoves(HERE, new, new)
    moves.finish()
    assert [*moves.give_up()] == []


def test_slots_that_still_move_are_moved_whatever_the_new_file_is_about(declared, tmp_path):
    """Also where all are to keep all: stores say whether they do."""
    file = declared("all", (HERE, "0-4095"))
    other = tmp_path / "other.yaml"
    other.write_text(file.read_text().replace("name: hosts", "name: other"))
    with closing(LmdbLog(tmp_path / "0")) as log:
        KeptSlots(log, Slots.of([range(2_048)]))
    (cluster,) = load(file).clusters
    place, (spec,) = Cluster.declared(cluster), cluster.stores
    with Store(tmp_path / "0", place, query=spec.query, durability=Durability.OS):
        for new in (other, file):
            assert [one.cluster for one in HostMoves(HERE, file, new).steps] == ["c1"]


def test_what_is_no_host_of_the_files_or_no_move_is_refused(coming, declared, pair, tmp_path):
    with pytest.raises(PlanError, match=r"nothing of .*new.yaml is on host 'x': there are 127"):
        HostMoves("x", *coming)
    text = pair.file.read_text()
    alone = tmp_path / "alone.yaml"
    alone.write_text(
        "version: 1\nname: pair\n"
        + text[text.index("clusters:") : text.index("  - name: c2")]
        + "tree: c1\n"
    )
    with pytest.raises(PlanError, match="with --host slots are moved and no more"):
        HostMoves(HERE, alone, pair.file)
