from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dafka.errors import MisuseError
from distributor.spark import register
from distributor.spark.source import TopologySource, endpoints, with_endpoints
from topology.model import Security


def test_a_cluster_by_its_name(pair):
    given = {"Topology": str(pair.file), "CLUSTER": "c2", "topic": "t"}
    cluster = pair.topology.cluster("c2")
    assert with_endpoints(given) == {
        "topic": "t",
        "servers": cluster.stores[0].query,
        "towers": cluster.towers[0],
        "wire": "rfc46",
    }
    keys = Security(access="keys/access.toml", cluster_key="x", key="keys/d.secret")
    found = endpoints(replace(cluster, security=keys), Path("/etc/dafka"))
    assert found["access"] == "/etc/dafka/keys/access.toml"
    assert found["key"] == "/etc/dafka/keys/d.secret"
    assert endpoints(replace(cluster, insecure=True), Path())["insecure"] == "true"
    assert endpoints(replace(cluster, wire="libdafka"), Path())["wire"] == "libdafka"
    assert with_endpoints({"servers": "x"}) == {"servers": "x"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"cluster": "c1"}, "go together"),
        ({"topology": "FILE"}, "go together"),
        ({"topology": "FILE", "cluster": "c9"}, "'cluster': there is no 'c9' in .* c1, c2"),
        ({"topology": "FILE", "cluster": "c1", "servers": "x"}, "'servers' cannot be used here"),
        ({"topology": "/nowhere.yaml", "cluster": "c1"}, "option 'topology': cannot read"),
    ],
)
def test_what_cannot_be_used_is_named(pair, given, complaint):
    given = {name: str(pair.file) if text == "FILE" else text for name, text in given.items()}
    with pytest.raises(MisuseError, match=complaint):
        with_endpoints(given)


def test_an_unknown_option_is_answered_with_all_that_there_are(pair):
    given = {"topology": str(pair.file), "cluster": "c1", "subscribe": "t", "starting": "latest"}
    with pytest.raises(MisuseError, match="known are topology, cluster, servers, "):
        TopologySource(given).schema()


def test_a_job_is_pointed_at_another_leaf_with_its_checkpoint(spark, pair, make_batch, tmp_path):
    register(spark)
    pair.fill(1, make_batch([b"0", b"1"]))
    pair.fill(2, make_batch([b"0", b"1"]), make_batch([b"2"], 2))

    def run(cluster):
        options = {"topology": str(pair.file), "cluster": cluster, "subscribe": "orders"}
        options["startingOffsets"] = "earliest"
        source = spark.readStream.format("dafka").options(**options).load()
        rows = source.selectExpr("CAST(value AS STRING) value").writeStream
        rows = rows.option("checkpointLocation", str(tmp_path / "checkpoint"))
        rows.trigger(availableNow=True).format("parquet").start(
            str(tmp_path / "out")
        ).awaitTermination()

    with pair.running():
        run("c1")
        run("c2")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.value for row in found) == ["0", "1", "2"]
