"""The page of groups as people use it."""

from __future__ import annotations

from itertools import product

import pytest
from playwright.sync_api import expect

from dafka.cluster import Cluster
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from distributor.testing.browser import HOW_TO_INSTALL, PATIENCE_MS, chromium
from tests.support.page_checks import HOSTILE, findings, outside

pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason=HOW_TO_INSTALL),
]

expect.set_options(timeout=PATIENCE_MS)

PLACE = Partition("orders", "AB" * 16)


@pytest.fixture
def running(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"a", b"b", b"c"]))
    with pair.running():
        committer = Committer(Cluster.declared(pair.topology.clusters[0]))
        for group, position in (("billing", 1), (HOSTILE, 3)):
            committer.write([(CommitKey(group, PLACE), Commit(position, 1, 5))])
        committer.close()
        yield pair


@pytest.mark.parametrize(("width", "scheme"), [*product((400, 1_280), ("light", "dark"))])
def test_groups_are_listed_and_one_is_shown_with_its_lag(running, show, tmp_path, width, scheme):
    page = show(width, scheme, path="groups.html")
    expect(page.locator("#summary")).to_have_text("2 groups")
    assert (outside(page), findings(page)) == ([], [])
    page.screenshot(path=tmp_path / "groups.png", full_page=True)
    page.get_by_role("link", name="billing").press("Enter")
    expect(page.locator("#group-title")).to_have_text("billing")
    expect(page.locator("#clusters-of tbody tr").first.locator("td")).to_have_text(
        ["c1", "none", "1", "2"]
    )
    expect(page.locator("#positions tbody tr").first.locator("td")).to_have_text(
        ["orders", PLACE.address[:8], "c1", "1", "3", "2"]
    )
    page.screenshot(path=tmp_path / "group.png", full_page=True)
    assert (outside(page), findings(page)) == ([], [])
    page.get_by_role("link", name="orders").first.click()
    expect(page.locator("#topic-title")).to_have_text("orders")


def test_names_are_text(running, show):
    page = show(path="groups.html")
    page.locator("#groups a").first.click()
    visible = HOSTILE.replace("\u202e", "\\u{202e}").replace("\x1b", "\\u{1b}")
    expect(page.locator("#group-title")).to_have_text(visible)
    assert page.locator("img").count() == 1, "the icon"
    assert page.evaluate("window.hacked") is None
