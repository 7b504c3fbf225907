from __future__ import annotations

from dataclasses import replace

import pytest

from topology.capacity import (
    BUFFER_BYTES,
    DISK_SHARE,
    PARTITION_BYTES,
    PROCESS_BYTES,
    RECORD_BYTES,
    Workload,
    size,
)
from topology.model import Links, Placement
from topology.plan import plan
from topology.testing import topology_of, tree_of

FOUR = topology_of(tree_of((3, (1, "a", "b"), (1, "c", "d"))))
EACH = 1_000 + RECORD_BYTES


def sized(topology=FOUR, rates=(100, 0, 0, 0), **load):
    names = [one.name for one in topology.clusters]
    by_cluster = dict(zip(names, rates, strict=True))
    found = size(plan(topology), Workload(rates=by_cluster, record_bytes=1_000, **load))
    return found, {(one.cluster, one.process): one for one in found.processes}


def test_each_cluster_stores_what_all_publish():
    found, processes = sized(rates=(100, 20, 3, 0), keep_s=10)
    for name in "abcd":
        store = processes[name, "store-1"]
        assert store.records_per_s == 123
        assert store.in_bytes_per_s == 123 * EACH
        assert store.disk_bytes == round(123 * EACH * DISK_SHARE * 10)
    assert [one.disk_bytes for one in found.clusters] == [store.disk_bytes] * 4


def test_links_copy_what_the_plan_lets_them():
    _, processes = sized()
    # a's level 3 sends to c, c's level 1 to d, a's level 1 to b.
    copied = {way: one.records_per_s for way, one in processes.items() if "level" in way[1]}
    assert {way for way, rate in copied.items() if rate} == {
        ("a", "level-3"),
        ("a", "level-1"),
        ("c", "level-1"),
    }
    assert set(copied.values()) == {0, 100}
    # Each hears all of its source, and sends to the target's store and two links.
    assert processes["b", "level-3"].in_bytes_per_s == 100 * EACH
    assert processes["a", "level-3"].out_bytes_per_s == 100 * EACH * 3
    assert processes["a", "level-3"].cores > processes["b", "level-3"].cores > 0
    assert processes["a", "producers"].out_bytes_per_s == 100 * EACH * 3
    assert processes["a", "producers"].cores is None


def test_who_reads_along_is_sent_to_on_every_cluster():
    _, before = sized()
    _, processes = sized(consumers=2)
    for way in (("a", "producers"), ("a", "level-3"), ("c", "level-1")):
        more = processes[way].out_bytes_per_s - before[way].out_bytes_per_s
        assert more == 100 * EACH * 2


def test_memory_follows_partitions_and_sums_leave_producers_out():
    found, processes = sized(partitions=1_000)
    known = 1_000 * 4 * PARTITION_BYTES
    assert processes["a", "store-1"].memory_bytes == PROCESS_BYTES + BUFFER_BYTES + known
    first = found.clusters[0]
    assert first.memory_bytes == 4 * PROCESS_BYTES + 3 * (BUFFER_BYTES + known)
    ours = [one for way, one in processes.items() if way[0] == "a" and way[1] != "producers"]
    assert first.out_bytes_per_s == sum(one.out_bytes_per_s for one in ours)
    assert first.cores == pytest.approx(sum(one.cores for one in ours))


def test_a_node_of_three_has_two_links_in_one_process():
    three = topology_of(tree_of((1, "a", "b", "c")))
    _, processes = sized(three, rates=(100, 0, 0))
    assert processes["a", "level-1"].records_per_s == 200
    assert processes["a", "level-1"].in_bytes_per_s == 200 * EACH


def test_what_is_placed_elsewhere_changes_nothing():
    placed = (Placement(topics="own.*", clusters=(FOUR.clusters[0].name,)),)
    assert sized(replace(FOUR, placement=placed))[0] == sized()[0]


def test_what_one_process_cannot_do_is_said_with_what_to_do():
    found, processes = sized(rates=(300_000, 0, 0, 0))
    assert processes["a", "store-1"].cores > 0.8
    assert "a store-1 needs 1.2 cores, and one process uses one: let stores" in found.warnings[0]
    assert any("a level-3 " in one and "`links: {shares: 2}`" in one for one in found.warnings)
    assert sized()[0].warnings == ()


def test_shares_divide_what_a_link_sends_and_all_hear_what_is_live():
    _, whole = sized()
    _, processes = sized(replace(FOUR, links=Links(level_shares={3: 2})))
    shares = [processes["a", f"level-3-{one}-of-2"] for one in (0, 1)]
    assert {one.records_per_s for one in shares} == {50}
    assert {one.in_bytes_per_s for one in shares} == {whole["a", "level-3"].in_bytes_per_s}
    assert ("a", "level-3") not in processes
    assert processes["a", "level-1"] == whole["a", "level-1"]


def test_of_a_share_that_is_too_much_it_is_said_what_more_shares_do_not_save():
    found, _ = sized(replace(FOUR, links=Links(level_shares={3: 2})), (900_000, 0, 0, 0))
    told = {line.partition(" needs")[0]: line for line in found.warnings}
    assert "run it in shares, `links: {shares: " in told["a level-1"]
    assert "each hears all that is published there" in told["a level-3-1-of-2"]
