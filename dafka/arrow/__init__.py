"""Records as Arrow's columns, without a Python object for each: for Spark, and for data frames.

pyarrow and numpy come with the extra `dafka-distributor[arrow]`.
"""
