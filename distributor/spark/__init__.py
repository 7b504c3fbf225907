"""Spark over a whole topology: sources by cluster name, links and audits as jobs.

`register(spark)` makes the formats of `dafka.spark` known to a session, with two more options:
`topology`, a file, and `cluster`, one of its names.
"""

from distributor.spark.source import register as register
