from dafka.wire import messages
from dafka.wire.messages import MessageId


def test_every_message_has_its_own_octet():
    classes = messages.Message.__args__
    assert {each.id for each in classes} == set(MessageId)
    assert len({each.value for each in MessageId}) == len(classes)
    assert all(len(each.value) == 1 for each in MessageId)


def test_a_single_record_counts_one():
    assert messages.RecordMessage("t", "A", 5, b"").count == 1
    assert messages.DirectRecord("R", "t", "A", 5, b"").count == 1


def test_messages_are_values():
    assert messages.Head("t", "A", 1) == messages.Head("t", "A", 1)
    assert len({messages.Head("t", "A", 1), messages.Head("t", "A", 1)}) == 1
