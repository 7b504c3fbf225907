from __future__ import annotations

import math
import sys

import pytest

from dafka.errors import MissingPackageError, MisuseError
from dafka.node.frames import RECORDS_MAX, Gathering
from dafka.node.received import ReceivedBatch
from tests.support.batches import make_batch


def received(values, start=0, end=100):
    return ReceivedBatch(make_batch(values), start, end)


def test_it_is_complete_with_so_many_records():
    gathering = Gathering("arrow", 3, None)
    assert (gathering.left, gathering.timeout) == (3, math.inf)
    gathering.add(received([b"0", b"1"]))
    assert gathering.left == 1
    gathering.add(received([b"0", b"1", b"2"], 2))
    assert gathering.left == 0
    assert gathering.made()["offset"].to_pylist() == [0, 1, 2]


def test_it_is_complete_once_nothing_comes_in_time():
    gathering = Gathering("arrow", None, 0.5)
    assert (gathering.left, gathering.timeout) == (RECORDS_MAX, 0.5)
    gathering.add(None)
    assert gathering.left == 0
    assert gathering.made().num_rows == 0


@pytest.mark.parametrize(
    ("max_records", "timeout", "complaint"),
    [
        (None, None, "to_arrow needs max_records or timeout"),
        (0, None, "max_records must be 1 or more: 0"),
        (1, -1, "timeout must not be negative: -1"),
    ],
)
def test_what_would_never_be_complete_is_refused(max_records, timeout, complaint):
    with pytest.raises(MisuseError, match=complaint):
        Gathering("arrow", max_records, timeout)


@pytest.mark.parametrize(
    ("kind", "package", "cure"),
    [
        ("arrow", "pyarrow", r"pip install 'dafka-distributor\[arrow\]'$"),
        ("pandas", "pandas", r"pip install 'dafka-distributor\[arrow\]' pandas$"),
        ("polars", "polars", r"pip install 'dafka-distributor\[arrow\]' polars$"),
    ],
)
def test_what_is_not_installed_is_named_before_anything_is_taken(monkeypatch, kind, package, cure):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"to_{kind} needs the package {package}.*{cure}"):
        Gathering(kind, 1, None)
