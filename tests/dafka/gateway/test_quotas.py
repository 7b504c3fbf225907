"""What users owe by their quotas; real clients: tests/scenarios/test_kafka_quotas.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.gateway.quotas import BURST_MS, THROTTLE_MS_MAX, Quotas
from dafka.gateway.users import KafkaUser
from dafka.gateway.wire import Api, Request
from dafka.transport.access import Rights

RATE = 1_000


def user(name="shop", produce=RATE, fetch=RATE):
    return KafkaUser(name, Rights(), {}, produce, fetch)


def produce(size):
    return Request(Api.PRODUCE, 9, 1, "me", SimpleNamespace(), size=size)


FETCH = Request(Api.FETCH, 11, 1, "me", SimpleNamespace(max_bytes=50_000))


def sent(*sizes):
    """The answer to a fetch."""
    return {"responses": [{"topic": "t", "partitions": [{"records": [bytes(s)]} for s in sizes]}]}


class Site:
    def __init__(self):
        self.now_ms, self.told = 100_000, []
        self.quotas = Quotas(lambda: self.now_ms, lambda *told: self.told.append(told))


@pytest.fixture
def site():
    return Site()


def test_a_burst_is_free_and_what_is_beyond_it_is_owed(site):
    throttle = site.quotas.of(user())
    assert throttle.asked(produce(RATE)) == 0
    assert throttle.muted_ms == 0
    assert throttle.asked(produce(500)) == 500
    assert throttle.muted_ms == 500
    site.now_ms += 400
    assert throttle.muted_ms == 100
    site.now_ms += 600
    assert throttle.muted_ms == 0
    assert throttle.asked(produce(500)) == 0
    assert site.told == [("shop", "produce", 500)]


def test_what_is_fetched_is_owed_by_who_fetches(site):
    throttle = site.quotas.of(user())
    assert throttle.asked(FETCH) == 0
    assert throttle.answered(FETCH, sent(600, 600)) == 200
    assert throttle.answered(produce(5_000), {}) == 0
    assert throttle.asked(produce(RATE)) == 0, "what is produced has another quota"
    assert site.told == [("shop", "fetch", 200)]


def test_a_fetch_brings_no_more_than_a_burst(site):
    body = SimpleNamespace(max_bytes=50_000)
    site.quotas.of(user()).asked(FETCH._replace(body=body))
    assert body.max_bytes == RATE * BURST_MS // 1_000
    body.max_bytes = 50_000
    site.quotas.of(user("other", fetch=None)).asked(FETCH._replace(body=body))
    assert body.max_bytes == 50_000


def test_connections_of_a_user_share_a_quota_and_each_waits_for_itself(site):
    first, second, other = (site.quotas.of(user(name)) for name in ("shop", "shop", "till"))
    assert first.asked(produce(3 * RATE)) == 2_000
    assert second.muted_ms == 0
    assert second.asked(produce(RATE)) == 3_000
    assert other.asked(produce(RATE)) == 0


def test_nobody_waits_without_end(site):
    throttle = site.quotas.of(user())
    assert throttle.asked(produce(1_000 * RATE)) == THROTTLE_MS_MAX
    assert throttle.muted_ms == THROTTLE_MS_MAX


def test_without_a_quota_nobody_waits(site):
    throttle = site.quotas.of(user(produce=None, fetch=None))
    assert throttle.asked(produce(10**9)) == 0
    assert throttle.answered(FETCH, sent(10**6)) == 0
    assert throttle.muted_ms == 0
    assert site.told == []


@given(st.lists(st.tuples(st.integers(1, 3 * RATE), st.integers(0, 2_000)), min_size=1))
def test_who_is_muted_for_what_he_owes_gets_through_no_more_than_his_rate_and_a_burst(story):
    site, total = Site(), 0
    throttle, began_ms = site.quotas.of(user()), site.now_ms
    for size, pause_ms in story:
        site.now_ms += max(pause_ms, throttle.muted_ms)
        assert total <= RATE * (site.now_ms - began_ms + BURST_MS) / 1_000
        throttle.asked(produce(size))
        total += size
