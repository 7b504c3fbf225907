"""kafka-python's own integration tests, from its source distribution, at a gateway before a store.

They were written against Apache Kafka. `make test` fetches them; they run in a process of their
own, as they bring fixtures and a package called `test`. What is expected to fail says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.net, pytest.mark.slow]

SDIST = Path(
    os.environ.get(
        "KAFKA_PYTHON_SDIST",
        Path(sys.prefix, "suites", f"kafka_python-{version('kafka-python')}.tar.gz"),
    )
)

SUITE_S = 600
TEST_S = 45

SERVICE = '''
class ExternalService:
    """A broker that was there before: somebody else starts it, stops it and keeps its log."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        pass


class SpawnedService(ExternalService):
    pass
'''
"""What the source distribution leaves out, as far as a broker that runs already needs it."""

NAMING = """
import re

import kafka.util

kafka.util.TOPIC_LEGAL_CHARS = re.compile("[A-Za-z0-9._-]")
"""
"""Of a test with parameters the suite takes nothing into the name of its topic, which then begins
with an underscore: such topics are a cluster's own here."""

ASKING = """
from kafka.cluster import ClusterMetadata

update = ClusterMetadata.update_metadata


def update_and_ask_for_the_rest(self, answer):
    update(self, answer)
    if set(self._topics) - {topic.name for topic in answer.topics}:
        self.request_update()


ClusterMetadata.update_metadata = update_and_ask_for_the_rest
"""
"""Who is told its `api_version` and subscribes while its first request for metadata is under way
asks for its topic at the next, five minutes later (kafka-python 3.0.12, against any broker)."""

OWN_BROKERS = ("test_sasl_integration.py", "test_ssl_integration.py")
"""They start brokers by Kafka's scripts; see `tests/scenarios/test_kafka_logins.py`."""

ADMIN, CONSUMER, PRODUCER = "admin_integration", "consumer_integration", "producer_integration"
_NO_REPLICAS = "how many stores keep a record is the cluster's matter: clients move no replicas"
_NO_RETENTION_BYTES = "retention.bytes is read-only: a ledger does not know how large records are"
_NO_TRANSACTIONS = "there are no transactions"
_BY_NEWER_API = "DescribeTopicPartitions is not served: all clients ask by Metadata as well"

FAILURES = {
    f"{ADMIN}::test_create_describe_delete_acls": "who may do what is a file at the gateway",
    f"{ADMIN}::test_describe_configs_topic_resource_returns_configs": _NO_RETENTION_BYTES,
    f"{ADMIN}::test_create_partitions": "the number says which records are in which partition",
    f"{ADMIN}::test_elect_leaders": "the gateways agree on who owns what",
    f"{ADMIN}::test_describe_log_dirs": "a gateway has no logs",
    f"{ADMIN}::test_alter_replica_log_dirs": _NO_REPLICAS,
    f"{ADMIN}::test_describe_metadata_quorum": "there is no quorum of controllers",
    f"{ADMIN}::test_alter_partition_reassignments": _NO_REPLICAS,
    f"{ADMIN}::test_list_partition_reassignments": _NO_REPLICAS,
    f"{ADMIN}::test_describe_topic_partitions": _BY_NEWER_API,
    f"{ADMIN}::test_describe_topic_partitions_pagination": _BY_NEWER_API,
    f"{CONSUMER}::test_kafka_version_infer": _BY_NEWER_API,
    f"{PRODUCER}::test_transactional_producer_messages": _NO_TRANSACTIONS,
    f"{PRODUCER}::test_transactional_producer_offsets": _NO_TRANSACTIONS,
}
"""What has to fail, and why."""

SKIPPED = {
    f"{PRODUCER}::{test}[{codec}]": f"kafka-python has {codec} only with packages of its own"
    for test in ("test_end_to_end", "test_kafka_producer_proper_record_metadata")
    for codec in ("snappy", "lz4")
} | {
    f"{CONSUMER}::test_kafka_consumer_offsets_for_time_old": "of brokers without times",
    f"{ADMIN}::test_list_config_resources": "of brokers from 4.1 on",
}
"""What skips itself, and why."""


def suite_in(directory):
    """Unpack the tests alone: what they import as `kafka` is what is installed."""
    with tarfile.open(SDIST) as archive:
        archive.extractall(directory, filter="data")
    (root,) = directory.iterdir()
    (root / "kafka").rename(root / "not-imported")
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(SERVICE)
    (root / "conftest.py").write_text(NAMING + ASKING)
    return root


TAGS = ("failure", "error", "skipped")


def run(root, endpoint, tests):
    """By test, what became of it; and the end of what was said."""
    report = root / "report.xml"
    options = ["--timeout", str(TEST_S), "--timeout-method", "signal", "--junitxml", str(report)]
    options += ["--override-ini", "log_level=WARNING"]
    options += [f"--ignore=test/integration/{name}" for name in OWN_BROKERS]
    settings = {"KAFKA_ROOT": str(root), "KAFKA_URI": f"plain://{endpoint}"}
    inherited = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests, "-q", *options],
        cwd=root,
        env=inherited | settings | {"KAFKA_VERSION": "4.0.0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SUITE_S,
        check=False,
    )
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname').rpartition('.test_')[2]}::{case.get('name')}"
        found[name] = next((part.tag for part in case if part.tag in TAGS), "passed")
    return found, done.stdout[-20_000:]


def failed(found):
    return {name for name, became in found.items() if became in ("failure", "error")}


@pytest.mark.skipif(not SDIST.exists(), reason=f"needs {SDIST.name}: make test fetches it")
def test_what_kafka_python_expects_of_a_broker_holds(make_cluster, free_ports, tmp_path):
    endpoint = make_cluster().gateway(free_ports(1))
    root = suite_in(tmp_path / "suite")
    found, said = run(root, endpoint, ["test/integration"])
    # The suite waits half a second for some answers: what failed beside other work runs again.
    late = sorted(failed(found) - FAILURES.keys())
    if late:
        again, said = run(
            root,
            endpoint,
            [f"test/integration/test_{name}".replace("::", ".py::", 1) for name in late],
        )
        found |= again
    assert failed(found) == FAILURES.keys(), said
    assert {name for name, became in found.items() if became == "skipped"} == SKIPPED.keys(), said
