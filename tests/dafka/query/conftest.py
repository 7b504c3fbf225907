from __future__ import annotations

import pytest

from tests.support.query_port import QueryPort


@pytest.fixture
def serving():
    serving = QueryPort()
    yield serving
    serving.stop()
