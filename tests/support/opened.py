"""What a replica's page says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from distributor.control.protocol import OpenedPage, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributor.control.protocol import OpenedFlowRow, OpenedRow


def page_of(*rows: OpenedRow, others: Sequence[OpenedFlowRow] = ()) -> str:
    """The page that tells these."""
    return json.dumps(values_of(OpenedPage(rows, tuple(others))))
