"""What Spark finds by itself: with the wheel, `format("dafka")` needs no registration.

Spark imports every top-level module whose name begins with `pyspark_`, and takes its
`DefaultSource`. The wheel has this package at its top, as `pyspark_dafka`. If one such module
cannot be imported Spark finds none at all, so this one can be, also where libraries are missing.
"""

import logging

try:
    from distributor.spark.source import TopologySource as DefaultSource
except ImportError as error:
    logging.getLogger(__name__).warning(
        'format("dafka") is not there: %s; pip install "dafka-distributor[spark]"', error
    )
else:
    __all__ = ["DefaultSource"]
