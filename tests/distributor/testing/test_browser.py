from __future__ import annotations

import pytest

from distributor.testing import browser as module
from distributor.testing.browser import HOW_TO_INSTALL, browser, chromium

pytestmark = pytest.mark.net


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason=HOW_TO_INSTALL)
def test_it_shows_pages_and_runs_their_programs():
    with browser() as opened:
        page = opened.new_page()
        page.set_content("<p id=a>1</p><script>a.textContent = 1 + 1</script>")
        assert page.inner_text("#a") == "2"


def test_where_there_is_no_browser_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="apt-get install chromium"), browser():
        pass
