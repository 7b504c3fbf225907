"""The demo between Kafka clients, at a gateway's front over a broker in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import confluent_kafka
import pytest

from distributor.demo import kafka
from distributor.demo.dataset import TOPICS, DatasetRow
from distributor.demo.job import ROW_HEADER, in_background
from distributor.demo.kafka import KafkaRun, gateways_of
from distributor.errors import PlanError, ProcessError
from tests.support.kafka_server import served
from topology import load

CONFIG = Path(__file__).parents[3] / "config"
ROWS = 30
WAIT_S = 120


class FakeSupervisor:
    def watch(self):
        return []


@pytest.fixture
def some_rows(monkeypatch):
    """A few rows of each topic instead of the data set's."""
    found = [
        DatasetRow(number, topic, b"key-%d" % (number % 5), b"value-%d" % number)
        for topic in TOPICS
        for number in range(ROWS)
    ]
    monkeypatch.setattr(kafka, "rows", lambda _: iter(found))
    return found


@pytest.fixture
def gateway():
    with served() as there:
        yield there


def begun(gateway, run="now"):
    begun = KafkaRun(run, gateway.endpoint, gateway.endpoint, None)
    begun.make_topics(FakeSupervisor())
    return begun


def test_the_demos_own_file_has_the_gateways_and_another_is_refused():
    declared = load(CONFIG / "kafka.yaml")
    assert gateways_of(declared) == ("127.0.0.1:19091", "127.0.0.1:19094")
    without = replace(declared.clusters[0], gateways=())
    with pytest.raises(PlanError, match="'cluster-1' has no gateway"):
        gateways_of(replace(declared, clusters=(without, *declared.clusters[1:])))


@pytest.mark.net
@pytest.mark.slow
def test_every_row_is_written_and_read_once_and_the_second_topic_waits(
    gateway, some_rows, until, tmp_path
):
    run = begun(gateway)
    writer, reader = in_background(run.publish), in_background(run.read)
    until(lambda: run.under_way, WAIT_S)
    assert run.published.rows == ROWS
    assert not writer.done()
    run.go_on()
    published = writer.result(WAIT_S)
    reader.result(WAIT_S)
    assert published.rows == len(some_rows)
    assert published.size == sum(len(row.key) + len(row.value) for row in some_rows)
    assert run.reading.proof("c4", published.rows).flawless


@pytest.mark.net
@pytest.mark.slow
def test_records_of_other_runs_are_passed_over(gateway, some_rows):
    for name in ("before", "now"):
        run = begun(gateway, name)
        run.go_on()
        writer, reader = in_background(run.publish), in_background(run.read)
        if name == "before":  # ended before anything is read
            run.finish()
        writer.result(WAIT_S)
        reader.result(WAIT_S)
    assert run.reading.proof("c4", len(some_rows)).flawless


@pytest.mark.net
@pytest.mark.slow
def test_rows_that_are_refused_are_said(some_rows):
    with served() as gateway:
        for topic in TOPICS:
            gateway.create(topic, max_message_bytes="1")
        run = begun(gateway)
        with pytest.raises(ProcessError, match="30 rows are not stored"):
            run.publish()


@pytest.mark.net
@pytest.mark.slow
def test_topics_that_do_not_come_are_said(free_ports):
    nobody = f"127.0.0.1:{free_ports(1)}"
    run = KafkaRun("now", nobody, nobody, None)
    with pytest.raises(ProcessError, match="no topics at"):
        run.make_topics(FakeSupervisor(), ready_s=0.1)


@pytest.mark.net
@pytest.mark.slow
def test_each_record_says_its_run_and_number(gateway, some_rows):
    run = begun(gateway)
    run.go_on()
    run.publish()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": gateway.endpoint, "group.id": "none", "enable.auto.commit": False}
    )
    places = [confluent_kafka.TopicPartition(TOPICS[0], n, 0) for n in range(kafka.PARTITIONS)]
    consumer.assign(places)
    found = []
    while len(found) < ROWS:
        message = consumer.poll(WAIT_S)
        assert message is not None
        found += [value for name, value in message.headers() if name == ROW_HEADER]
    consumer.close()
    assert sorted(found) == sorted(b"now %d" % number for number in range(ROWS))
