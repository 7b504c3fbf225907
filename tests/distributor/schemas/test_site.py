from __future__ import annotations

from dafka.schemas.entries import ConfigKey, Primary, PrimaryKey, SchemaEntry, Stamp
from dafka.schemas.schema_log import MemorySchemaLog
from distributor.schemas.site import WRITTEN_AT_ONCE, Site, claimed_twice, latest_claim, sites_of
from topology.formats import parse_format
from topology.testing import topology_of, tree_of


def site_of(name, *entries, log=None):
    log = log or MemorySchemaLog(list(entries), "A")
    return Site(name, int(name[1:]), parse_format("{topic}"), {}, lambda: log)


def claim(epoch, cluster, writer="A"):
    return SchemaEntry(PrimaryKey(), Stamp(epoch, 0), Primary(cluster, writer))


def test_nothing_is_opened_before_it_is_read():
    opened = []
    site = Site(
        "c1", 1, parse_format("{topic}"), {}, lambda: opened.append(1) or MemorySchemaLog([], "")
    )
    site.close()
    assert not opened
    assert site.read()
    assert site.write([SchemaEntry(ConfigKey(None), Stamp(1, 1), "NONE")])
    assert (len(opened), site.state.level(None)) == (1, "NONE")


def test_what_does_not_answer_says_why_until_it_does():
    log = MemorySchemaLog([], "A")
    site = site_of("c1", log=log)
    log.reachable = False
    assert not site.read()
    assert "stores can be read" in site.error
    assert not site.write([claim(1, "c1")])
    assert site.error == "no store has it"
    log.reachable = True
    assert site.read()
    assert (site.error, site.primary) == ("", "")


def test_much_is_written_in_parts():
    written = []

    class Parts(MemorySchemaLog):
        def write(self, entries):
            written.append(len(entries))
            super().write(entries)

    site = site_of("c1", log=Parts([], "A"))
    count = WRITTEN_AT_ONCE + 1
    assert site.write([SchemaEntry(ConfigKey(f"s{n}"), Stamp(1, n), "NONE") for n in range(count)])
    assert written == [WRITTEN_AT_ONCE, 1]
    assert site.state.changes == count


def test_the_latest_claim_counts_and_two_of_one_epoch_are_noticed():
    sites = [site_of("c1", claim(1, "c1")), site_of("c2", claim(258, "c2")), site_of("c3")]
    for site in sites:
        site.read()
    assert latest_claim(sites) == claim(258, "c2")
    assert latest_claim(sites[2:]) is None
    assert claimed_twice(sites) == ""
    sites[2].write([claim(1, "c3")])
    assert claimed_twice(sites) == "c1 and c3 have both claimed epoch 1: give each its id"
    assert claimed_twice([sites[0], site_of("c9", claim(1, "c1", "B"))]) == ""


def test_only_clusters_with_a_registry_are_sites():
    topology = topology_of(tree_of((1, "c1", "c2")))
    assert sites_of(topology) == []
