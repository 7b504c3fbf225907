"""A real browser without a window, for tests of pages: Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

HOW_TO_INSTALL = "chromium is not installed: apt-get install chromium"

PATIENCE_MS = 180_000
"""How long whoever asks for a page waits for what it shall show: a busy machine draws one in more
than playwright's half minute."""

_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
)


def chromium() -> str | None:
    """Where the browser is; None if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Browser]:
    """Open a browser with an empty profile of its own.

    Raises:
        RuntimeError: There is none.
    """
    program = chromium()
    if program is None:
        raise RuntimeError(HOW_TO_INSTALL)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, headless=True, args=list(_FLAGS))
        try:
            yield opened
        finally:
            opened.close()
