"""A dashboard in this process, over two clusters in this process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from distributor.dashboard.server import Dashboard
from distributor.local.processes import processes_of
from distributor.testing.browser import PATIENCE_MS, browser
from topology import load, plan


class Site:
    """The dashboard as a browser sees it."""

    def __init__(self, url):
        self.url = url

    def ask(self, path, method="GET", **headers):
        """Return status, headers and text of a page."""
        request = urllib.request.Request(self.url.rstrip("/") + path, method=method)
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    def json(self, path, **words):
        """Return status and value of an answer."""
        status, _, text = self.ask(path, **words)
        return status, json.loads(text)

    def events(self, names):
        """Return the data of the first events of these names, in this order."""
        found = []
        with urllib.request.urlopen(self.url + "api/events", timeout=60) as stream:
            for line in stream:
                if line.startswith(b"event: ") and line[7:].strip().decode() == names[len(found)]:
                    found.append(json.loads(next(stream).removeprefix(b"data: ")))
                    if len(found) == len(names):
                        return found
        raise AssertionError(f"only {len(found)} of {names}")


@pytest.fixture
def open_site(pair):
    """A function that serves the dashboard of the pair of clusters, as its file is now."""
    running = []

    def open_site(**settings):
        the_plan = plan(load(pair.file))
        processes = processes_of(the_plan, pair.file)
        running.append(Dashboard(the_plan, processes, "127.0.0.1:0", **settings))
        return Site(running[-1].url)

    yield open_site
    for dashboard in running:
        dashboard.close()


@pytest.fixture(scope="module")
def opened():
    with browser() as opened:
        yield opened


@pytest.fixture
def show(opened, open_site):
    """A function that shows the dashboard; any complaint of the browser fails the test."""
    pages, complaints = [], []

    def show(width=1_280, scheme="light", state="ok", path=""):
        page = opened.new_page(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text))
        page.goto(open_site().url + path)
        page.wait_for_selector(f"#summary[data-state={state}]")
        return page

    yield show
    for page in pages:
        page.close()
    assert complaints == []
