from __future__ import annotations

from distributor.link.settings import LinkSettings


def test_by_default_a_link_leaves_nothing_out():
    settings = LinkSettings()
    assert not settings.skips("orders")
    assert not settings.passes
