from __future__ import annotations

from dafka.gateway.broker import Gateway, KafkaPartition
from dafka.gateway.sharing import gateway_of, node_number, share_of, share_of_groups
from dafka.groups.commit import GATEWAYS


def test_a_member_is_known_by_its_id():
    node = node_number("AB")
    assert gateway_of("AB@127.0.0.1:9092.3") == Gateway(node, "127.0.0.1", 9_092)
    assert gateway_of("AB@[::1]:9092.3") == Gateway(node, "[::1]", 9_092)
    assert gateway_of("AB.1") is gateway_of("AB@x:y.1") is gateway_of("") is None
    assert 0 < node < 2**31


def test_partitions_and_groups_are_shared_under_names_of_their_own():
    shares = [share_of(KafkaPartition("orders", 3)), share_of_groups(3)]
    assert [one.topic for one in shares] == [GATEWAYS, GATEWAYS]
    assert [one.address for one in shares] == ["orders/3", "__consumer_offsets/3"]
