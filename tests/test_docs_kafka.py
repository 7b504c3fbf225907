"""The table of Kafka clients and what they do says what tests show, and no more."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka_programs import SOURCES

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "docs/kafka.md").read_text().splitlines()
TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in LINES
    if line.count("|") == 11 and "---" not in line
]
HEADS, *ROWS = TABLE
CALLED = {
    "librdkafka": "librdkafka",
    "kcat": "kcat",
    "kafka-python": "kafkapython",
    "aiokafka": "aiokafka",
    "Java 3": "java3",
    "Java 4": "java4",
    "kafkajs": "kafkajs",
    "@platformatic/kafka": "platformatic",
    "sarama": "sarama",
}
"""What stands in the names of their tests, or in brackets behind."""

CODECS = ("what_one_writes_with_a_codec", "what_each_other_writes_with_a_codec", "kcat_writes")
SHOWN = {
    "write and read": [f"{test}.*none" for test in CODECS],
    "gzip": [f"{test}.*gzip" for test in CODECS],
    "snappy": [f"{test}.*snappy" for test in CODECS],
    "lz4": [f"{test}.*lz4" for test in CODECS],
    "zstd": [f"{test}.*zstd" for test in CODECS],
    "idempotent producer": ["an_idempotent_producer_writes", "an_idempotent_program_writes"],
    "begin at an offset": ["consumer_begins_at_any_offset", "program_begins_at_any_offset"],
    "offsets by time": ["finds_offsets_by_time"],
    "topics: make, list, describe": ["administers_topics"],
    "topics: delete, make again, alter": ["alters_topics"],
    "groups: list, describe, offsets": ["administers_groups"],
    "groups: move offsets, delete": ["moves_and_deletes_groups"],
    "groups: forget an offset": ["forgets_an_offset"],
    "member of a group": [
        r"kafka_groups\.py::test_members_share_partitions",
        "programs_share_partitions.*classic",
        "kcat_reads_as_a_group",
    ],
    "takes over from a killed member": [
        r"kafka_groups\.py::test_what_a_killed_member_had",
        "programs_share_partitions.*classic",
    ],
    "cooperative member": ["cooperative_members_give_away"],
    "static member": [r"(groups|programs)\.py::test_a_static_member"],
    "the coordinator assigns (KIP-848)": ["programs_share_partitions.*consumer"],
    "PLAIN, SCRAM-SHA-256 and 512, with TLS and without": [
        f"(program|kcat)_that_has_the_password_writes.*{mechanism}"
        for mechanism in ("PLAIN-TLS", "256-plain text", "512-TLS")
    ],
    "certificate as login": ["certificate_is_a_login"],
    "transactions": ["transactions_are_refused", "that_there_are_no_transactions"],
}
"""Tests of each feature."""

OF = {
    "offsets by time": {"offsets_are_found_by_time": {"kafka-python"}},
    "groups: move offsets, delete": {
        "librdkafka_administers_groups": {"librdkafka"},
        "kafka_python_administers_groups": {"kafka-python"},
    },
    "groups: forget an offset": {"kafka_python_administers_groups": {"kafka-python"}},
    "the coordinator assigns (KIP-848)": {
        r"kafka_consumer_groups\.py::test_members_share": {"librdkafka"}
    },
    "PLAIN, SCRAM-SHA-256 and 512, with TLS and without": {
        "who_has_the_password_writes_and_reads": {"librdkafka", "kafka-python", "aiokafka"}
    },
    "certificate as login": {
        "a_certificate_of_the_authority_is_a_login": {"librdkafka"},
        "kafka_python_and_aiokafka_write_where_a_certificate": {"kafka-python", "aiokafka"},
    },
}
"""Those whose names do not say whose tests they are."""


@pytest.fixture(scope="module")
def tests_there_are():
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
            *sorted(map(str, (ROOT / "tests/scenarios").glob("test_kafka_*.py"))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


def shown(feature, tests):
    """The clients that some test does it with."""
    found = set()
    for pattern in SHOWN[feature]:
        names = [one.rpartition("::")[2] for one in tests if re.search(pattern, one)]
        assert names, f"no test is called {pattern}"
        plain = [name.lower().replace("_", "") for name in names]
        found |= {name for name, called in CALLED.items() if any(called in one for one in plain)}
    for pattern, clients in OF.get(feature, {}).items():
        assert any(re.search(pattern, one) for one in tests), f"no test is called {pattern}"
        found |= clients
    return found


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_client_does_what_a_test_shows_and_nothing_else_is_said(row, tests_there_are):
    feature, *cells = row
    assert set(cells) <= {"-", "refused" if feature == "transactions" else "yes"}
    told = {client for client, cell in zip(CALLED, cells, strict=True) if cell != "-"}
    assert told == shown(feature, tests_there_are)


def test_every_feature_that_is_tested_has_its_row():
    assert [row[0] for row in ROWS] == list(SHOWN)


def test_the_versions_are_those_that_are_installed():
    assert [name for name, head in zip(CALLED, HEADS[1:], strict=True) if name in head] == [*CALLED]
    pins = dict(
        line.split("==")
        for line in (ROOT / ".ci/constraints.txt").read_text().splitlines()
        if "==" in line
    )
    node = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    versions = {"librdkafka": pins["confluent-kafka"]}
    versions |= {name: pins[name] for name in ("kafka-python", "aiokafka")}
    versions |= {name: node[name] for name in ("kafkajs", "@platformatic/kafka")}
    for name, version in versions.items():
        assert f"{name} {version}" in HEADS
