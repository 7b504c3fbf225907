"""What the packages promise by name."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
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
        *("AsyncConsumer", "AsyncProducer", "PendingDelivery"),
        *("ConnectionWarning", "DeserializationError", "MissingPackageError"),
        *("SerializationError", "UnreachableError"),
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
        *("InvalidError", "MissingExtraError", "Problem", "TopologyError", "UnreadableError"),
    },
    distributor: {
        *("DistributorError", "LinkNode", "Status", "Verdict", "status_of", "verify"),
    },
}


NAMES = [(package, name) for package, names in PUBLIC.items() for name in sorted(names)]


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_the_public_names_are_these(package):
    assert set(package.__all__) == set(dir(package)) == PUBLIC[package]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_each_is_there_once_it_is_asked_for(package, name):
    # A function may share its module's name, as `topology.plan` does; then the function is meant.
    found = getattr(package, name)
    assert not inspect.ismodule(found)
    import_module(found.__module__)
    assert getattr(package, name) is found


def test_only_what_is_asked_for_is_loaded():
    program = (
        "import sys, dafka, distributor, topology; print(sorted({'zmq', 'yaml'} & {*sys.modules}));"
        "dafka.Producer; print(sorted({'zmq', 'yaml'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["[]", "['zmq']"]
