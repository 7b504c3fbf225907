"""What a replica's page says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from distributor.control.protocol import values_of

if TYPE_CHECKING:
    from distributor.control.protocol import OpenedRow


def page_of(*rows: OpenedRow) -> str:
    """The page that tells these."""
    return json.dumps({"links": values_of(rows)})
