"""A registry."""

from __future__ import annotations

import pytest

from tests.support.served_registry import served_registry


@pytest.fixture
def url(free_ports):
    """Where a registry is."""
    with served_registry(free_ports(1)) as url:
        yield url
