"""A Spark session as our own jobs want it."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession as SparkSession

from dafka.spark.java import ensure_java

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def open_session(master: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """Open a session, or return the one there is.

    Args:
        master: `local[*]`, `spark://HOST:PORT`, ...
        name: Of the application.
        settings: Of Spark, before ours.

    Raises:
        MisuseError: There is no Java.
    """
    ensure_java()
    # It tells of every connection it closes, also while the process ends.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Spark's workers take whatever `python3` is, unless told. On other machines the user tells.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    session = builder.config(map={**DEFAULTS, **settings}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
