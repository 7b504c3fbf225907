"""`dafka`: tower, store, produce, consume, topics, peek, groups, keys, schemas."""

from __future__ import annotations

import sys

import typer

from dafka.cli.clients import consume, produce
from dafka.cli.groups import groups
from dafka.cli.keys import keys
from dafka.cli.queries import peek, topics
from dafka.cli.schemas import schemas
from dafka.cli.servers import store, tower
from dafka.errors import DafkaError, MisuseError, StorageError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="One Dafka cluster: towers, stores, producers and consumers over ZeroMQ (RFC 46).",
)
app.command()(tower)
app.add_typer(store, name="store")
for command in (produce, consume, topics, peek, groups, keys, schemas):
    app.command()(command)


def main() -> None:
    """Run the command line; a problem the user can mend is one line on standard error.

    Exit codes: 0 done; 1 the cluster or the disk failed; 2 the call cannot be carried out as given.
    """
    try:
        app()
    except (MisuseError, StorageError) as error:
        print(f"dafka: {error}", file=sys.stderr)
        sys.exit(2)
    except DafkaError as error:
        print(f"dafka: {error}", file=sys.stderr)
        sys.exit(1)
