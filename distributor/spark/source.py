"""`format("dafka")` with a cluster by its name: a job says which leaf it reads or writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.spark.source import BatchDataSource, DafkaDataSource
from distributor.loading import load
from topology.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from topology import ClusterSpec


def register(spark: SparkSession) -> None:
    """Make `format("dafka")` and `format("dafka-batches")` known to a session."""
    for kind in (TopologySource, TopologyBatchSource):
        spark.dataSource.register(kind)


OPTIONS = ("topology", "cluster")
"""What they take beside those of `dafka.spark`."""


class TopologySource(DafkaDataSource):
    """`dafka.spark`'s source and sink, with the options `topology` and `cluster`."""

    also = OPTIONS

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(with_endpoints(options))


class TopologyBatchSource(BatchDataSource):
    """The same for whole batches."""

    also = OPTIONS

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(with_endpoints(options))


def with_endpoints(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with `topology` and `cluster` replaced by what they stand for.

    Raises:
        MisuseError: Only one of them is given, or endpoints too; or the file cannot be used, or has
            no such cluster.
    """
    plain = {name.lower(): value for name, value in options.items()}
    file, name = plain.pop("topology", None), plain.pop("cluster", None)
    if file is None and name is None:
        return plain
    if file is None or name is None:
        raise MisuseError("the options 'topology' (a file) and 'cluster' (a name) go together")
    for option in ("servers", "towers", "access", "key", "insecure", "wire"):
        if option in plain:
            raise MisuseError(f"option {option!r} cannot be used here: the topology says it")
    try:
        topology = load(file)
    except TopologyError as error:
        raise MisuseError(f"option 'topology': {error}") from error
    for cluster in topology.clusters:
        if cluster.name == name:
            return {**plain, **endpoints(cluster, Path(file).parent)}
    known = ", ".join(cluster.name for cluster in topology.clusters)
    raise MisuseError(f"option 'cluster': there is no {name!r} in {file!r}; there are {known}")


def endpoints(cluster: ClusterSpec, directory: Path) -> dict[str, str]:
    """The options that lead to a cluster.

    Args:
        cluster: Which.
        directory: Of the topology's file: what its key files are relative to.
    """
    options = {
        "servers": ",".join(store.query for store in cluster.stores),
        "towers": ",".join(cluster.towers),
        "wire": cluster.wire,
    }
    if cluster.security is not None:
        options["access"] = str((directory / cluster.security.access).absolute())
        options["key"] = str((directory / cluster.security.key).absolute())
    elif cluster.insecure:
        options["insecure"] = "true"
    return options
