"""Reading from a place on, up to one, and of some topics or keys only."""

from __future__ import annotations

import json
import time

import pytest

from dafka.process.clock import wall_ms

pytestmark = [pytest.mark.net, pytest.mark.slow]

NOBODY = "tcp://127.0.0.1:9"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def filled(cluster, dafka):
    """A cluster with two topics, of ten records each, one an hour: the last is an hour old."""
    now_ms = wall_ms()
    for topic in ("read.a", "read.b"):
        rows = [
            {
                "value": f"{topic[-1]}{at}",
                "key": f"k{at % 2}",
                "timestamp_ms": now_ms - (10 - at) * HOUR_MS,
            }
            for at in range(10)
        ]
        given = "\n".join(map(json.dumps, rows)).encode()
        done = dafka("produce", topic, "--json", "--tower", cluster.tower, given=given)
        assert done.returncode == 0, done.stderr
    return cluster


@pytest.fixture
def consume(filled, dafka):
    """A function that returns what is printed and reaches its end by itself."""

    def consume(*words):
        done = dafka("consume", *words, "--tower", filled.tower, "--store", filled.query)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode().split()

    return consume


def test_the_last_ones_are_printed_and_it_ends(consume):
    assert consume("read.a", "--last", "3") == ["a7", "a8", "a9"]
    assert consume("read.*", "--last", "4") in (["a8", "b8", "a9", "b9"], ["b8", "a8", "b9", "a9"])
    assert consume("read.a", "--last", "3", "--max", "1") == ["a7"]


def test_what_was_published_between_two_times_is_printed_and_it_ends(consume):
    assert consume("read.a", "--since", "270m", "--until", "90m") == ["a6", "a7", "a8"]
    assert consume("read.b", "--until", "510m") == ["b0", "b1"]
    assert consume("read.b", "--since", "30m", "--until", "0s") == []
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((wall_ms() - 9 * HOUR_MS) / 1_000 - 60))
    assert consume("read.a", "--since", moment, "--max", "2") == ["a1", "a2"]


def test_from_a_place_on_it_goes_on_with_what_comes(consume):
    assert consume("read.a", "--offset", "6", "--max", "4") == ["a6", "a7", "a8", "a9"]
    assert consume("read.a", "--offset", "-2", "--max", "2") == ["a8", "a9"]
    assert sorted(consume("read.*", "--since", "150m", "--max", "4")) == ["a8", "a9", "b8", "b9"]
    assert consume("read.a", "--offset", "10", "--timeout", "4") == []


def test_only_records_with_a_key(consume):
    assert consume("read.a", "--record-key", "k1", "--until", "0s") == [
        "a1",
        "a3",
        "a5",
        "a7",
        "a9",
    ]
    assert consume("read.a", "--record-key", "k0", "--from-beginning", "--max", "2") == ["a0", "a2"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--offset", "1", "--since", "1m"), "--offset and --since say two places"),
        (("--last", "1", "--from-beginning"), "--from-beginning and --last say two places"),
        (("--last", "10001"), "--last 10001 is too many to hold"),
        (("--since", "soon"), "time 'soon' is none"),
        (("--until", "soon"), "time 'soon' is none"),
        (("--group", "g", "--last", "1"), "a group goes on where it is"),
        (("--group", "g", "--until", "1m"), "a group goes on where it is"),
    ],
)
def test_what_says_no_place_is_refused(refused, words, complaint):
    assert complaint in refused(2, "consume", "read.a", "--tower", NOBODY, *words)


def test_a_topic_that_stores_do_not_have_is_refused(filled, refused):
    at = ("--tower", filled.tower, "--store", filled.query)
    assert "no topic matches 'none*'" in refused(2, "consume", "none*", *at)
    assert "no partition of topic 'none'" in refused(2, "consume", "none", "--last", "1", *at)


@pytest.mark.parametrize(
    "words", [("read.*",), ("read.a", "--since", "1m"), ("read.a", "--last", "1")]
)
def test_a_store_that_is_needed_and_not_there_is_named(cluster, refused, words):
    at = ("--tower", cluster.tower, "--store", NOBODY)
    assert f"cannot reach {NOBODY} within 2000 ms" in refused(1, "consume", *words, *at)


def test_without_a_tower_it_ends_by_itself(dafka):
    done = dafka("consume", "read.a", "--tower", NOBODY, "--connect-timeout", "3")
    meanwhile, last = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert f"tower={NOBODY}" in meanwhile
    assert f": nothing answers of the tower at {NOBODY}; is it started" in last


def test_it_waits_for_records_where_a_tower_is(filled, dafka):
    at = ("--tower", filled.tower, "--store", filled.query)
    done = dafka("consume", "quiet", *at, "--connect-timeout", "0.1", "--timeout", "3")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
