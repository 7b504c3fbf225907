from __future__ import annotations

import pytest

from benchmarks.chain import PLAIN, SHAPED
from dafka.errors import RecordError


@pytest.mark.parametrize("form", [PLAIN, SHAPED], ids=["plain", "shaped"])
def test_times_are_read_as_they_were_sent_behind_a_relay_too(form):
    written = form.write([5, 7], 3)
    form.check(written, 3)
    for content in (written, form.flag(written)):
        assert list(form.read(content, 3, 2)) == [5, 7]


def test_who_receives_what_is_shaped_like_ours_sums_it_up():
    written = bytearray(SHAPED.write([5, 7], 3))
    written[-1] ^= 1
    with pytest.raises(RecordError):
        SHAPED.check(bytes(written), 3)
