"""`dafka`: one cluster, from towers and stores to clients, groups and keys."""

from __future__ import annotations

import typer

from dafka.cli.command import CommandPlace, Version, group_of, run
from dafka.cli.contexts import take_settings
from dafka.errors import DafkaError, MisuseError, StorageError

COMMANDS = {
    "tower": CommandPlace(
        "dafka.cli.tower:tower",
        "Run a tower: the place where a cluster's nodes find each other.",
    ),
    "store": CommandPlace(
        "dafka.cli.store:store",
        "Run a store: it keeps every record of its cluster and answers questions about them.",
    ),
    "produce": CommandPlace(
        "dafka.cli.produce:produce",
        "Publish every line of standard input as a record.",
    ),
    "consume": CommandPlace(
        "dafka.cli.consume:consume",
        "Print the records of topics as they come, values only or as JSON.",
    ),
    "topics": CommandPlace(
        "dafka.cli.topics:topics",
        "Show topics, their contents and settings; drop their records.",
    ),
    "peek": CommandPlace(
        "dafka.cli.queries:peek",
        "Read some records of a topic out of a store; moves nobody's position.",
    ),
    "holes": CommandPlace(
        "dafka.cli.queries:holes",
        "List what a store waits for that nobody has: what is behind it is not acknowledged.",
    ),
    "groups": CommandPlace(
        "dafka.cli.groups:groups",
        "Show groups of consumers, their positions and members; move them.",
    ),
    "context": CommandPlace(
        "dafka.cli.context:context",
        "Keep tower, stores and keys of a cluster under a name: a context.",
    ),
    "keys": CommandPlace(
        "dafka.cli.keys:keys",
        "Make a key: NAME.secret for its holder, and an entry in access.toml for everybody.",
    ),
    "schemas": CommandPlace(
        "dafka.cli.schemas:schemas",
        "Run a schema registry: Confluent's REST interface, kept in the topic _schemas.",
    ),
    "gateway": CommandPlace(
        "dafka.cli.gateway:gateway",
        "Run a port for Kafka clients, or look at those that run, and into their ledgers.",
    ),
}

app = typer.Typer(
    cls=group_of(COMMANDS, take_settings),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def dafka(version: Version = False) -> None:
    """One Dafka cluster: towers, stores, producers and consumers over ZeroMQ (RFC 46)."""


def main() -> None:
    """Run the command line; a problem the user can mend is one line on standard error.

    Exit codes: 0 done; 1 the cluster, the disk or the output failed; 2 the call cannot be carried
    out as given; 130 interrupted.
    """
    run("dafka", app, (MisuseError, StorageError), (DafkaError,))
