"""`dafka`: tower, store, produce, consume, topics, peek, holes, groups, keys, schemas, gateway."""

from __future__ import annotations

import typer

from dafka.cli.command import group_of, run
from dafka.errors import DafkaError, MisuseError, StorageError

COMMANDS = {
    "tower": "dafka.cli.servers:tower",
    "store": "dafka.cli.servers:store",
    "produce": "dafka.cli.clients:produce",
    "consume": "dafka.cli.clients:consume",
    "topics": "dafka.cli.queries:topics",
    "peek": "dafka.cli.queries:peek",
    "holes": "dafka.cli.queries:holes",
    "groups": "dafka.cli.groups:groups",
    "keys": "dafka.cli.keys:keys",
    "schemas": "dafka.cli.schemas:schemas",
    "gateway": "dafka.cli.gateway:gateway",
}

app = typer.Typer(
    cls=group_of(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def dafka() -> None:
    """One Dafka cluster: towers, stores, producers and consumers over ZeroMQ (RFC 46)."""


def main() -> None:
    """Run the command line; a problem the user can mend is one line on standard error.

    Exit codes: 0 done; 1 the cluster, the disk or the output failed; 2 the call cannot be carried
    out as given; 130 interrupted.
    """
    run("dafka", app, (MisuseError, StorageError), (DafkaError,))
