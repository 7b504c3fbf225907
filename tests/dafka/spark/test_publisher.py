from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.spark.access import Access
from dafka.spark.publisher import mirror_of, own_host


def test_a_process_has_one_mirror_on_a_cluster(cluster):
    mirror = mirror_of((cluster.towers,), 1, Access())
    assert mirror_of((cluster.towers,), 1, Access()) is mirror
    mirror.close()
    other = mirror_of((cluster.towers,), 1, Access())
    assert other is not mirror
    assert other.alive
    assert mirror_of((cluster.towers,), 1, Access(insecure=True)) is not other


def test_the_way_to_a_tower_says_who_we_are():
    assert own_host("tcp://127.0.0.1:5556") == "127.0.0.1"
    assert own_host("tcp://localhost:5556") == "127.0.0.1"


def test_a_tower_that_is_none():
    with pytest.raises(MisuseError, match="endpoint"):
        own_host("nowhere")
