from __future__ import annotations

import pytest

from dafka.serializers.framing import HEAD_BYTES, head_of, taken_apart


def test_a_head_is_a_zero_and_the_schema_s_id():
    assert head_of(258) == b"\0\0\0\1\2"
    id_, rest = taken_apart(head_of(258) + b"rest")
    assert (id_, bytes(rest)) == (258, b"rest")
    assert bytes(taken_apart(head_of(7))[1]) == b""
    assert len(head_of(7)) == HEAD_BYTES


@pytest.mark.parametrize("octets", [b"", b"\0\0\0\0", b"{}xyz"])
def test_what_has_none_is_refused(octets):
    with pytest.raises(ValueError, match="not with 00 and the id of a schema"):
        taken_apart(octets)
