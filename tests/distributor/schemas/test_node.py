from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from dafka.node.loop import NodeFailedError
from distributor.errors import PlanError
from distributor.schemas.distributor import DistributorState, Part, SchemaDistributor
from distributor.schemas.node import SchemaNode
from distributor.schemas.site import Site, sites_of

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def with_registries(make_pair):
    pair = make_pair()
    clusters = [
        replace(cluster, registry=f"http://127.0.0.1:{8_000 + cluster.id}")
        for cluster in pair.topology.clusters
    ]
    pair.topology = replace(pair.topology, clusters=tuple(clusters), primary="c1")
    return pair


def test_it_makes_its_cluster_the_first_primary_and_tells_the_others(with_registries, until):
    with with_registries.running():
        node = SchemaNode(with_registries.topology, "c1")
        assert node.unwell() == ""
        sites = sites_of(with_registries.topology)
        until(lambda: all(site.read() and site.primary == "c1" for site in sites))
        until(lambda: not node.unready())
        assert not node.join(0)
        name, labels = "distributor_schema_acting", {"source": "c1"}
        until(lambda: REGISTRY.get_sample_value(name, labels) == 1)
        node.close()
        assert node.join(0)
        assert REGISTRY.get_sample_value(name, labels) is None
        for site in sites:
            site.close()


def test_stores_that_do_not_answer_are_waited_for(with_registries, monkeypatch, until):
    monkeypatch.setattr(Site, "read", lambda site: setattr(site, "error", "nobody there"))
    node = SchemaNode(with_registries.topology, "c2")
    until(lambda: node.unready() == "c2: nobody there")
    assert node.unwell() == ""
    node.close()


def test_a_conflict_makes_it_unwell_and_a_failure_ends_it(with_registries, monkeypatch, until):
    def contested(distributor, _now_ms):
        distributor.state = DistributorState(Part.CONFLICT, "two of them")

    monkeypatch.setattr(SchemaDistributor, "step", contested)
    node = SchemaNode(with_registries.topology, "c1")
    until(lambda: node.unwell() == "two of them")
    node.close()

    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(SchemaDistributor, "step", fail)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    node = SchemaNode(with_registries.topology, "c1")
    until(lambda: "a bug" in node.unwell())
    with pytest.raises(NodeFailedError, match="a bug"):
        node.join(1)


def test_a_cluster_without_a_registry_has_none(make_pair):
    with pytest.raises(PlanError, match="'c1' has no registry: there are none"):
        SchemaNode(make_pair().topology, "c1")
