"""Three clusters with native links between them, and flights published on the first."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from distributor.spark import register
from tests.support.trio import Trio, some_flights


@pytest.fixture(scope="session")
def flights():
    return some_flights()


@pytest.fixture
def trio(spark, flights, tmp_path, free_ports, until):
    register(spark)
    trio = Trio(tmp_path, free_ports(9))
    with ExitStack() as stack:
        trio.run(stack)
        trio.publish(flights)
        until(lambda: trio.held("c2", "flights") == len(flights))
        yield trio
