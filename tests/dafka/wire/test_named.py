from __future__ import annotations

from dafka.wire import named
from dafka.wire.named import NamedTopics


def test_who_listens_for_all_names_none():
    topics = NamedTopics()
    topics.listened("")
    assert "orders" not in topics
    topics.listened("orders")
    assert "orders" in topics
    assert "others" not in topics


def test_who_cannot_be_remembered_is_thought_to_be_there(monkeypatch):
    monkeypatch.setattr(named, "PARTITIONS_MAX", 1)
    topics = NamedTopics()
    topics.listened("orders")
    topics.listened("others")
    assert "others" in topics
    assert "anything" in topics
