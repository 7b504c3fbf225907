from __future__ import annotations

from dafka.query.paging import page


def test_what_fits_is_one_page():
    assert page([], len) == ([], False)
    assert page(["a", "b"], len) == (["a", "b"], False)


def test_what_does_not_fit_comes_with_the_next_page():
    items = ["x" * 20] * 5
    assert page(items, len, 110) == (items[:2], True)
