"""The page of topics as people use it."""

from __future__ import annotations

from itertools import product

import pytest
from playwright.sync_api import expect

from dafka.model import Partition
from dafka.schemas.entries import Schema
from distributor.dashboard import catalogue
from distributor.testing.browser import HOW_TO_INSTALL, PATIENCE_MS, chromium
from tests.support.page_checks import HOSTILE, findings, outside

pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason=HOW_TO_INSTALL),
]

expect.set_options(timeout=PATIENCE_MS)

ADDRESS = "AB" * 16


@pytest.fixture
def running(pair, make_batch):
    hostile = make_batch([HOSTILE.encode()], partition=Partition(HOSTILE, ADDRESS))
    for number in (1, 2):
        pair.fill(number, make_batch([b"a", b"b"]), hostile)
    pair.fill(1, make_batch([b"c"], partition=Partition("orders", "CD" * 16)))
    with pair.running():
        yield pair


@pytest.mark.parametrize(("width", "scheme"), [*product((400, 1_280), ("light", "dark"))])
def test_topics_are_listed_and_one_is_shown(running, show, monkeypatch, tmp_path, width, scheme):
    row = {"cluster": "c1", "error": "", "subject": "orders-value", "version": 3, "id": 7}
    schema = Schema("AVRO", '{"type": "record",\n "name": "<b>Order</b>"}')
    row |= {"language": schema.language, "text": schema.text}
    monkeypatch.setattr(catalogue.Schemas, "of_topic", lambda *_: [row])
    page = show(width, scheme, path="topics.html")
    rows = page.locator("#topics tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator("#summary")).to_have_text("2 topics")
    page.screenshot(path=tmp_path / "topics.png", full_page=True)
    assert (outside(page), findings(page)) == ([], [])
    page.get_by_label("Name contains").fill("ORD")
    expect(rows).to_have_count(1)
    expect(rows.locator("td")).to_have_text(["orders", "2", "3", "1"])
    page.get_by_role("link", name="orders").press("Enter")
    expect(page.locator("#topic-title")).to_have_text("orders")
    expect(page.locator("#clusters-of tbody tr")).to_have_count(2)
    expect(page.locator("#clusters-of tbody tr").nth(1).locator("td")).to_have_text(
        ["c2", "1", "2", "2", "1"]
    )
    expect(page.locator("#messages tbody tr")).to_have_count(3)
    page.locator("summary").press("Enter")
    expect(page.locator("pre")).to_have_text(schema.text)
    page.screenshot(path=tmp_path / "topic.png", full_page=True)
    assert (outside(page), findings(page)) == ([], [])
    page.get_by_role("link", name="c2").click()
    expect(page.locator("#asked")).to_have_text("At c2.")
    expect(page.locator("#messages tbody tr")).to_have_count(2)


def test_names_and_messages_are_text(running, show):
    page = show(path="topics.html")
    page.locator("#topics a").first.click()
    visible = HOSTILE.replace("\u202e", "\\u{202e}").replace("\x1b", "\\u{1b}")
    expect(page.locator("#topic-title")).to_have_text(visible)
    expect(page.locator("#messages tbody td").last).to_have_text(visible)
    assert page.locator("img").count() == 1, "the icon"
    assert page.evaluate("window.hacked") is None


def test_a_topic_that_is_not_there_and_a_cluster_that_is_down_are_said(pair, show, make_batch):
    pair.fill(1, make_batch([b"a"]))
    with pair.running(1):
        page = show(state="bad", path="topics.html")
        expect(page.locator("#summary")).to_have_text("c2 does not answer")
        expect(page.locator("#topics tbody tr")).to_have_count(1)
        page.locator("#topics a").click()
        expect(page.locator("#clusters-of tbody tr").nth(1)).to_contain_text("cannot reach")
        expect(page.locator("#messages tbody tr")).to_have_count(1)
