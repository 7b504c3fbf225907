from __future__ import annotations

import pytest

from dafka.gateway.broker import Entrance
from dafka.gateway.configs import (
    TOPIC_CONFIGS,
    batch_bytes_max,
    cluster_configs,
    described,
    entrance_of,
    refusal,
    retention_ms,
)
from dafka.limits import CLIENT_BATCH_BYTES_MAX


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"retention.ms": "-1", "retention.bytes": "-1"},
        {"cleanup.policy": "delete", "compression.type": "producer"},
        {"message.timestamp.type": "CreateTime"},
        {"max.message.bytes": "1000"},
        {"retention.ms": None},
    ],
)
def test_what_can_be_heeded_is_taken(configs):
    assert refusal(configs) is None


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("no.such.config", "1", "there is no config 'no.such.config'"),
        ("cleanup.policy", "compact", "cleanup.policy is delete here"),
        ("compression.type", "zstd", "compression.type is producer here"),
        (
            "message.timestamp.type",
            "LogAppendTime",
            "cannot be 'LogAppendTime': batches are kept as",
        ),
        ("retention.ms", "-2", "a number from -1"),
        ("retention.ms", "soon", "not 'soon'"),
        ("retention.ms", "9" * 20, "not '9"),
        ("retention.ms", "٣", "a number"),
        ("retention.bytes", "1000000", "cannot be '1000000': a ledger does not know how large"),
        ("max.message.bytes", str(CLIENT_BATCH_BYTES_MAX + 1), "a number from 0 to"),
    ],
)
def test_what_would_not_be_heeded_is_refused(name, value, why):
    assert why in refusal({name: value})


def test_every_default_may_be_set():
    assert refusal({name: one.default for name, one in TOPIC_CONFIGS.items()}) is None


def test_a_topic_is_described_with_what_was_set_and_what_was_not():
    rows = {row["name"]: row for row in described({"retention.ms": "5"}, None)}
    assert rows.keys() == TOPIC_CONFIGS.keys()
    assert (rows["retention.ms"]["value"], rows["retention.ms"]["config_source"]) == ("5", 1)
    assert (rows["retention.bytes"]["value"], rows["retention.bytes"]["config_source"]) == ("-1", 5)
    assert rows["cleanup.policy"]["read_only"]
    assert rows["retention.bytes"]["read_only"]
    (kept,) = described({"retention.bytes": "7"}, ["retention.bytes"])
    assert kept["value"] == "7", "as it was set where that could be"
    assert [row["name"] for row in described({}, ["retention.ms", "other"])] == ["retention.ms"]


def test_batches_are_as_large_as_the_topic_says():
    assert batch_bytes_max({}) == CLIENT_BATCH_BYTES_MAX
    assert batch_bytes_max({"max.message.bytes": "7"}) == 7


def test_records_are_as_old_as_a_topic_says():
    assert retention_ms({}) is retention_ms({"retention.ms": "-1"}) is None
    assert retention_ms({"retention.ms": "7"}) == 7


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
def test_where_one_comes_into_a_cluster_is_read_as_it_was_written(flags):
    entrance = Entrance(("tcp://a:1", "tcp://b:1"), ("tcp://a:2",), *flags)
    configs = {name: value for name, _, value in cluster_configs(entrance)}
    assert entrance_of(configs) == entrance


@pytest.mark.parametrize("configs", [{}, {"dafka.stores": "tcp://a:1"}, {"dafka.towers": None}])
def test_configs_of_another_make_say_nothing_of_it(configs):
    assert entrance_of(configs) is None
