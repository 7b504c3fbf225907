from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from distributor.cli.kafka_demo import kafka_job
from distributor.errors import PlanError
from topology import load
from topology.extras import told_of_extras


def job(file):
    return kafka_job(load(file), None, None, Console(file=io.StringIO()))


def test_it_needs_gateways_at_both_ends(four):
    with pytest.raises(PlanError, match=r"'cluster-1' has no gateway: see config/kafka\.yaml"):
        job(four)


def test_without_a_client_it_says_what_to_install(four, monkeypatch):
    monkeypatch.delitem(sys.modules, "distributor.demo.kafka", raising=False)
    monkeypatch.delattr("distributor.demo.kafka", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ModuleNotFoundError) as raised, told_of_extras():
        job(four)
    assert "pip install 'dafka-distributor[kafka]'" in str(raised.value)
