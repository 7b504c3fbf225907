"""What the packages promise by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import dafka
import distributor
import topology

ROOT = Path(__file__).parent.parent

PUBLIC = {
    dafka: {
        *(
            "Cluster",
            "Consumer",
            "Credentials",
            "Delivery",
            "Header",
            "Partition",
            "Producer",
            "ReceivedBatch",
            "Record",
            "Store",
        ),
        *("ClusterClient", "Tower", "keep_freed_memory", "load_credentials"),
        *(
            "AddressInUseError",
            "BufferFullError",
            "CommitError",
            "DafkaError",
            "HoleError",
            "MisuseError",
            "NotStoredError",
        ),
        *("QueryError", "RebalancedError", "RecordError", "StorageError"),
    },
    topology: {
        *("Branch", "ClusterName", "ClusterSpec", "Distributor", "Link", "Names", "Plan", "Spread"),
        *("Topology", "load", "plan", "prove", "render_text", "spread"),
        *("InvalidError", "Problem", "TopologyError", "UnreadableError"),
    },
    distributor: {
        *("DistributorError", "LinkNode", "Status", "Verdict", "status_of", "verify"),
    },
}


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_the_public_names_are_these(package):
    modules = {path.stem for path in (ROOT / package.__name__).iterdir()}
    names = {name for name in vars(package) if not name.startswith("_") and name not in modules}
    # A function may share its module's name, as `topology.plan` does; then the function is meant.
    assert names | {name for name in PUBLIC[package] if name in modules} == PUBLIC[package]
    assert all(hasattr(package, name) for name in PUBLIC[package])


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_the_packages_are_typed(package):
    assert (ROOT / package.__name__ / "py.typed").exists()


def test_every_error_has_one_base():
    for package, base in ((dafka, "DafkaError"), (topology, "TopologyError")):
        for name in PUBLIC[package]:
            if name.endswith("Error"):
                assert issubclass(getattr(package, name), getattr(package, base))
