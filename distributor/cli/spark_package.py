"""`distributor spark`: what jobs on a cluster of machines need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dafka.errors import MisuseError
from dafka.plural import counted
from topology.terminal import say

ENDINGS = (".tar.gz", ".tgz")
"""By which Spark knows how to unpack an archive."""

spark = typer.Typer(no_args_is_help=True, add_completion=False)


@spark.callback()
def of_spark() -> None:
    """Prepare what Spark jobs need on a cluster of machines.

    Example: distributor spark package deps.tar.gz
    """


@spark.command()
def package(
    archive: Annotated[Path, typer.Argument(help="What to write; ends with .tar.gz.")],
) -> None:
    """Pack what executors need beside Spark, as it is installed here, into one archive.

    They need the same version of Python and the same kind of machine as this one.

    Example: distributor spark package deps.tar.gz
    """
    if not archive.name.endswith(ENDINGS):
        raise MisuseError(
            f"the archive must end with {' or '.join(ENDINGS)}, by which Spark knows what it is: "
            f"{str(archive)!r}"
        )
    from distributor.spark.archive import write_archive

    try:
        versions = write_archive(archive)
    except OSError as error:
        raise MisuseError(f"cannot write {str(archive)!r}: {error.strerror}") from error
    size = archive.stat().st_size / 1e6
    say(f"{archive}: {counted(len(versions), 'distribution')}, {size:,.0f} MB")
    say(f"use it: --conf spark.archives={archive}#deps --conf spark.executorEnv.PYTHONPATH=deps")
