from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.limits import GROUP_TOPICS_MAX
from dafka.model import Partition
from dafka.node.group_options import GroupOptions

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
