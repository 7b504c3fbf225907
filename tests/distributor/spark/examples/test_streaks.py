from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from distributor.demo.dataset import rows
from distributor.spark.examples.command_line import StreamJob
from distributor.spark.examples.streaks import LATE_MINUTES, SETTINGS, STREAK, start

pytestmark = [pytest.mark.slow, pytest.mark.net]


@pytest.fixture(scope="session")
def flights():
    """All flights of a month of those aircraft that had most, as they were to leave."""
    month = [(json.loads(row.value), row) for row in rows(27_000) if row.topic == "flights"]
    most = Counter(flight["tailnum"] for flight, _ in month if flight["tailnum"]).most_common(25)
    aircraft = {tail for tail, _ in most}
    chosen = [entry for entry in month if entry[0]["tailnum"] in aircraft]
    return [row for _, row in sorted(chosen, key=lambda entry: entry[0]["time_hour"])]


@pytest.fixture
def with_states(spark):
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, text in SETTINGS.items():
        spark.conf.set(name, text)
    yield spark
    for name, text in before.items():
        spark.conf.set(name, text)


def test_aircraft_that_leave_late_again_and_again(with_states, trio, flights, tmp_path):
    """Over several micro-batches and a restart: what is late in a row spans them."""
    job = StreamJob(with_states, trio.file, str(tmp_path / "checkpoint"), rows=len(flights) // 4)
    for _ in range(2):
        start(job, "c2").awaitTermination()
    late, expected = defaultdict(int), Counter()
    for row in flights:
        flight = json.loads(row.value)
        minutes = flight["dep_delay"]
        tail = flight["tailnum"]
        late[tail] = late[tail] + 1 if minutes is not None and minutes > LATE_MINUTES else 0
        expected[tail] += late[tail] >= STREAK
    place = {"topology": trio.file, "cluster": "c2", "subscribe": "streaks"}
    found = with_states.read.format("dafka").options(**place).load().collect()
    assert Counter(row.key.decode() for row in found) == +expected
    assert all(row.value.endswith(b"times in a row") for row in found)
    assert found
