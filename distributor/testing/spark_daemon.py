"""Spark's daemon of Python, with all loaded that its workers would load, each for itself.

For sessions whose workers are many and live briefly, as `spark.python.daemon.module`: loading our
sources and pyarrow is half a second of CPU for each worker, forking one that has them is not.
"""

from importlib import import_module
from runpy import run_module

LOADED = (
    "dafka.spark.source",
    "distributor.spark.source",
    "pandas",
    "pyspark.sql.pandas.serializers",
    "pyspark.worker",
)
"""What the workers of tasks load; those that plan have a daemon of their own, which no setting
changes."""

if __name__ == "__main__":
    for module in LOADED:
        import_module(module)
    run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
