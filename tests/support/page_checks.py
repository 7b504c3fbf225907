"""What is looked for on every page of the dashboard, in a real browser."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe

HOSTILE = '<img src=x onerror="window.hacked=1">\'"&amp;</option>\u202e\x1b'
"""A name that wants to be more than text."""

_OUTSIDE = """() => [...document.querySelectorAll("main *")]
  .filter((one) => !one.closest("thead") && one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.outerHTML.slice(0, 200))"""


def outside(page):
    """What a small screen would not show."""
    return page.evaluate(_OUTSIDE)


def findings(page):
    """What axe-core has to say against a page."""
    rules = {"target-size": {"enabled": True}}
    told = Axe().run(page, options={"resultTypes": ["violations"], "rules": rules}).response
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in told["violations"]]
