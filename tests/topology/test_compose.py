from __future__ import annotations

from dataclasses import replace

import pytest

from tests.topology.test_deployment import FOUR
from topology.compose import compose_files
from topology.deployment import DeploymentError
from topology.model import RetentionSpec


def test_each_host_runs_what_is_its_own():
    files = compose_files(FOUR, "ours:1")
    assert list(files) == [f"dafka-{n}.example" for n in range(1, 5)]
    services = files["dafka-2.example"]["services"]
    assert len(services) == 7
    assert {one["image"] for one in services.values()} == {"ours:1"}
    store = services["cluster-2-store-1"]
    assert store["depends_on"] == ["cluster-2-tower-1"]
    assert "cluster-2-store-1:/var/lib/dafka" in store["volumes"]
    assert files["dafka-2.example"]["volumes"] == {"cluster-2-store-1": {}}
    level = services["cluster-2-level-3"]
    assert level["depends_on"] == ["cluster-2-store-1"]
    assert level["tmpfs"] == ["/tmp", "/run/dafka"]  # it makes /run/dafka/control there
    assert "depends_on" not in services["cluster-2-tower-1"]


def test_only_what_reads_something_else_is_made_anew():
    before = compose_files(FOUR, "ours:1")["dafka-1.example"]["services"]
    slower = replace(FOUR, links=replace(FOUR.links, repair_after_ms=99))
    after = compose_files(slower, "ours:1")["dafka-1.example"]["services"]
    touched = {name for name in before if before[name] != after[name]}
    assert touched == {"cluster-1-level-1", "cluster-1-level-3"}


def test_a_directory_that_the_image_does_not_have_is_refused():
    stores = (replace(FOUR.clusters[0].stores[0], data="/srv/dafka/store"),)
    moved = replace(FOUR, clusters=(replace(FOUR.clusters[0], stores=stores), *FOUR.clusters[1:]))
    with pytest.raises(DeploymentError, match="write /var/lib/dafka/store"):
        compose_files(moved, "ours:1")


def test_a_dollar_is_no_variable():
    rule = RetentionSpec(topics="$x", age_s=9)
    services = compose_files(replace(FOUR, retention=(rule,)), "o")["dafka-1.example"]["services"]
    assert "$$x,age_s=9" in services["cluster-1-store-1"]["command"]
