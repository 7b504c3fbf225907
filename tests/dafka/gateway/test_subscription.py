from __future__ import annotations

import pytest

from dafka.gateway.subscription import subscribed_topics
from tests.support.kafka_groups import subscription


@pytest.mark.parametrize(
    ("told", "topics"),
    [
        (subscription("a", "b"), {"a", "b"}),
        (subscription(), set()),
        (b"", None),
        (b"\0\1\x7f\xff\xff\xff", None),
        (b"\0\1\0\0\0\1\0\2\xff\xff", None),
    ],
)
def test_topics_are_read(told, topics):
    assert subscribed_topics(told) == topics
