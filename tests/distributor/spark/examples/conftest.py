"""Three clusters with native links between them, and flights published on the first."""

from __future__ import annotations

import pytest

from distributor.spark import register
from tests.support.trio import Trio, some_flights


@pytest.fixture(scope="session")
def flights():
    return some_flights()


@pytest.fixture
def trio(spark, flights, tmp_path, free_ports, until):
    register(spark)
    with Trio(tmp_path, free_ports(9)).running(flights, until) as trio:
        yield trio
