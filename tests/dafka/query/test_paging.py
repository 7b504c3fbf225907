from __future__ import annotations

from dafka.query import paging
from dafka.query.paging import page


def test_what_fits_is_one_page():
    assert page([], len) == ([], False)
    assert page(["a", "b"], len) == (["a", "b"], False)


def test_what_does_not_fit_comes_with_the_next_page(monkeypatch):
    monkeypatch.setattr(paging, "PAGE_BYTES_MAX", 100)
    items = ["x" * 20] * 5
    assert page(items, len) == (items[:2], True)
