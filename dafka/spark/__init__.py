"""Spark's face of one cluster: batch source, stream source and sink, `format("dafka")`.

`register(spark)` makes the format known to a session. pyspark, pyarrow and numpy are imported
here and nowhere else in this package; they come with the extra `dafka-distributor[spark]`.
"""

from topology.extras import told_of_extras

with told_of_extras():
    from dafka.spark.source import DafkaDataSource as DafkaDataSource
    from dafka.spark.source import register as register
