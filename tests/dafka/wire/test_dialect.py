"""Which dialects there are."""

from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.wire import libdafka, rfc46
from dafka.wire.dialect import DEFAULT_DIALECT, dialect


def test_dialects_are_named():
    assert dialect("libdafka") is libdafka
    assert dialect("rfc46") is dialect(DEFAULT_DIALECT) is rfc46


def test_an_unknown_name_is_refused_and_says_which_there_are():
    with pytest.raises(MisuseError, match="wire 'kafka' is not known: rfc46 or libdafka"):
        dialect("kafka")
