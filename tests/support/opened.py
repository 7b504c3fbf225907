"""What a replica's page says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.request import urlopen

from distributor.control.opened_links import PAGE
from distributor.control.protocol import OpenedPage, decode_opened, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributor.control.protocol import OpenedFlowRow, OpenedRow


def page_of(*rows: OpenedRow, others: Sequence[OpenedFlowRow] = ()) -> str:
    """The page that tells these."""
    return json.dumps(values_of(OpenedPage(rows, tuple(others))))


def written_at(metrics: str) -> set[int]:
    """Of which levels a replica writes records."""
    with urlopen(f"http://{metrics}{PAGE}", timeout=20) as page:
        opened = decode_opened(page.read().decode())
    return {one.row.level for one in opened.links if one.writes}
