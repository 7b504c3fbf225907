from __future__ import annotations

import os
import sys

from dafka.spark.session import open_session


def test_there_is_one_session_and_settings_reach_it(spark):
    again = open_session("local[2,4]", "tests", {"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
