import sys

import pytest

from distributor.testing.spark_daemon import LOADED

pytestmark = [pytest.mark.slow, pytest.mark.net]


def test_a_worker_begins_with_all_of_it(spark):
    wanted = LOADED
    (missing,) = (
        spark.sparkContext.parallelize([0], 1)
        .map(lambda _: [one for one in wanted if one not in sys.modules])
        .collect()
    )
    assert missing == []
