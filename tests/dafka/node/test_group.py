"""What the application sees of a group is in tests/scenarios/test_groups.py."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack

import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.limits import GROUP_TOPICS_MAX
from dafka.model import Partition
from dafka.node.consumer import Consumer
from dafka.node.group import GroupOptions, joined
from dafka.process.clock import Clock, now_ms
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start

OPTIONS = GroupOptions("billing", ("tcp://127.0.0.1:1",), 5_000, 10_000, 300_000)


def test_options_that_can_be_used():
    assert OPTIONS.checked(["orders"]) is OPTIONS
    assert OPTIONS._replace(auto_commit_ms=None).checked(["orders"])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"group": ""}, "group ''"),
        ({"stores": ()}, "query ports"),
        ({"stores": ("tcp://127.0.0.1:1",) * 2}, "given twice"),
        ({"auto_commit_ms": 0}, "positive"),
        ({"max_hold_ms": 0}, "positive"),
        ({"session_timeout_ms": 99}, "100 to 3600000: 99"),
    ],
)
def test_options_that_cannot(changed, says):
    with pytest.raises(MisuseError, match=says):
        OPTIONS._replace(**changed).checked(["orders"])


def test_a_group_has_positions_of_its_own():
    with pytest.raises(MisuseError, match="use seek"):
        OPTIONS.checked(["orders"], {Partition("orders", "A1"): 3})


def test_too_many_topics():
    with pytest.raises(MisuseError, match="at most 100 topics"):
        OPTIONS.checked([f"t{number}" for number in range(GROUP_TOPICS_MAX + 1)])


pytestmark = pytest.mark.net


def options(*stores):
    return GroupOptions("billing", stores, 5_000, 10_000, 300_000)


def join(opened, stored, *stores):
    machine = ConsumerMachine("ME", ConsumerSettings(topics=("orders",), start=Start.ASSIGNED))
    where = Cluster(stored.endpoint, stores)
    return joined(opened, options(*stores), machine, Start.EARLIEST, where)


def test_what_was_opened_is_closed_when_something_else_cannot_be(stored):
    before = set(threading.enumerate())
    with pytest.raises(MisuseError), ExitStack() as opened:
        join(opened, stored, stored.query, "nonsense")
    assert set(threading.enumerate()) == before


def lag(group="billing", member="ME"):
    labels = {"group": group, "member": member}
    return REGISTRY.get_sample_value("dafka_group_lag_records", labels)


def test_its_lag_is_told_as_long_as_it_lives(stored):
    assert lag() is None
    with ExitStack() as opened:
        join(opened, stored, stored.query)
        assert lag() == 0
    assert lag() is None


def test_commits_and_rebalances_are_counted(stored, take):
    def counted(name):
        return REGISTRY.get_sample_value(name, {"group": "counting"}) or 0

    producer = stored.producer()
    producer.send("orders", b"0")
    producer.flush(10)
    settings = {"group": "counting", "stores": stored.query, "session_timeout_ms": 1_000}
    with stored.consumer("orders", **settings) as consumer:
        take(consumer, 1)
        consumer.commit()
    assert counted("dafka_group_commits_total") == 1
    assert counted("dafka_group_rebalances_total") == 1


def test_the_lag_is_what_a_full_member_has_not_been_given(stored, take, until):
    producer = stored.producer(batch_bytes_max=200)
    for number in range(100):
        producer.send("orders", bytes(50) + b"%d" % number)
    producer.flush(10)
    settings = {"group": "slow", "stores": stored.query, "session_timeout_ms": 1_000}
    with stored.consumer("orders", buffer_bytes_max=500, **settings) as consumer:
        take(consumer, 1)
        until(lambda: (lag("slow", consumer.address) or 0) > 50)
        take(consumer, 99)
        until(lambda: lag("slow", consumer.address) == 0)


def test_a_member_of_as_many_topics_as_it_may_have(stored, take):
    topics = [f"{number:0200}" for number in range(GROUP_TOPICS_MAX)]
    producer = stored.producer()
    producer.send(topics[-1], b"0")
    producer.flush(10)
    settings = {"group": "wide", "stores": stored.query, "session_timeout_ms": 1_000}
    with stored.consumer(*topics, **settings) as consumer:
        take(consumer, 1)


class Jumping:
    """A clock that is ahead of the node's, as after the process was stopped."""

    def __init__(self, consumer):
        self.ahead_ms = 0
        consumer._group._clock = Clock(now_ms=lambda: now_ms() + self.ahead_ms)


@pytest.fixture
def member(stored, take):
    """A member that has the first of ten records, and the clock that its application goes by."""
    producer = stored.producer()
    producer.send_many("orders", [b"%d" % number for number in range(10)])
    producer.flush(10)
    settings = {"group": "stopped", "stores": stored.query, "session_timeout_ms": 2_000}
    with stored.consumer("orders", **settings) as consumer:
        take(consumer, 1)
        yield consumer, Jumping(consumer), producer


def test_nothing_of_a_batch_is_handed_over_when_the_lease_has_lapsed(member):
    consumer, clock, _ = member
    clock.ahead_ms = 60_000  # far beyond any lease
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(consumer.poll, 5)
        with pytest.raises(FutureTimeoutError):
            polled.result(0.3)
        clock.ahead_ms = 0  # it was renewed
        assert polled.result(5).value == b"1", "and nothing is passed over"


def test_nor_is_another_batch(member, take):
    consumer, clock, producer = member
    take(consumer, 9)
    clock.ahead_ms = 60_000  # far beyond any lease
    producer.send("orders", b"next")
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(consumer.poll, 5)
        with pytest.raises(FutureTimeoutError):
            polled.result(0.3)
        clock.ahead_ms = 0
        assert polled.result(5).value == b"next"


def test_whoever_waits_for_a_renewal_is_let_go_when_the_member_ends(member):
    consumer, clock, _ = member
    clock.ahead_ms = 60_000  # far beyond any lease
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(consumer.poll, 0.1)
        time.sleep(0.1)
        consumer._node.stop()
        assert polled.exception(5) is None
        assert polled.result() is None
        clock.ahead_ms = 0


def test_a_member_may_have_a_port_of_its_own(stored, take, free_ports):
    producer = stored.producer()
    producer.send("orders", b"0")
    producer.flush(10)
    there = Cluster(stored.endpoint, stored.query, host=f"127.0.0.1:{free_ports(1)}")
    with Consumer(there, "orders", group="ported", session_timeout_ms=1_000) as consumer:
        take(consumer, 1)
        consumer.commit()
