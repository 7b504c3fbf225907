"""`dafka gateway ledger`: what gateways have written of offsets, as the stores have it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.options import Access, AllStores, Json, Key, entered
from dafka.cli.queries import Timeout, stores_of
from dafka.errors import MisuseError
from dafka.gateway.ledger_check import check_ledger
from dafka.node.ledgers import read_all_ledgers
from topology.output import Columns, column, number, print_rows
from topology.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.cluster import Cluster
    from dafka.gateway.ledger_check import CheckedLedger

AGAIN_S = 2.0
"""What is wrong is looked at again then: what was only under way is stored by that time."""

ledger = typer.Typer(add_completion=False, help="Look into the ledgers of a cluster's gateways.")


LEDGERS: Columns[CheckedLedger] = (
    column("topic"),
    number("partition"),
    number("epoch"),
    number("start"),
    number("stored"),
    number("end"),
    number("runs"),
    number("holes"),
    column("problems", lambda row: "; ".join(row.problems) or "none"),
)


@ledger.command()
def check(
    store: AllStores,
    topic: Annotated[str | None, typer.Argument(help="Only partitions of this one.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those of all topics.")] = False,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """Check that offsets are what gateways promise, as far as the stores show it.

    Name every store of the cluster. Runs do not overlap, stores say the same, records named are
    there, what clients may have been told is in enough stores. Exit code 1 if anything is wrong, or
    more than half of the stores do not answer.

    Example: dafka gateway ledger check orders --store tcp://127.0.0.1:5558
    """
    if (topic is None) is not every:
        raise MisuseError("name a topic, or --all for those of all topics")
    cluster = entered(stores=store, access=access, key=key)
    rows = _rows(cluster, timeout, topic)
    if not rows:
        where = "here" if topic is None else f"of topic {topic!r}"
        raise MisuseError(f"no ledger {where}: no gateway has served Kafka clients there")
    if any(row.problems for row in rows):
        time.sleep(AGAIN_S)
        sound = {(row.topic, row.partition): row for row in rows if not row.problems}
        again = _rows(cluster, timeout, topic)
        rows = [sound.get((row.topic, row.partition), row) for row in again]
    print_rows(rows, LEDGERS, "ledgers", as_json=json_lines)
    if any(row.problems for row in rows):
        raise typer.Exit(1)


def _rows(cluster: Cluster, timeout: float, topic: str | None) -> Sequence[CheckedLedger]:
    with stores_of(cluster, timeout) as stores:
        answers = stores.all(lambda client: read_all_ledgers(client, topic))
    if 2 * len(answers.given) <= len(cluster.stores):
        assert answers.failure is not None
        raise answers.failure
    for failure in answers.failures.values():
        complain("dafka", failure)
    partitions = {place for found in answers.given.values() for place in found}
    rows = []
    for place in sorted(partitions):
        reads = {name: found[place] for name, found in answers.given.items() if place in found}
        if any(read.lines for read in reads.values()):
            rows.append(check_ledger(place, reads, len(cluster.stores)))
    return rows
