from __future__ import annotations

import pytest

from distributor.testing.browser import HOW_TO_INSTALL, chromium
from distributor.testing.screenshot import take

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.mark.skipif(chromium() is None, reason=HOW_TO_INSTALL)
def test_it_takes_a_picture_of_a_topology_under_load(pair, tmp_path):
    take(pair.file, tmp_path / "picture.png", warm_up_ms=1)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
