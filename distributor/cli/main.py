"""`distributor`: run, replica, up, schemas, status, verify, audit, trace, doctor, demo, drill."""

from __future__ import annotations

import typer

from dafka.cli.command import CommandPlace, Version, group_of, run
from dafka.errors import DafkaError, MisuseError
from distributor.errors import DistributorError, PlanError
from topology.errors import TopologyError

COMMANDS = {
    "run": CommandPlace(
        "distributor.cli.run:run",
        "Copy one cluster's records across one level, until told to stop.",
    ),
    "up": CommandPlace(
        "distributor.cli.up:up",
        "Run every tower, store and distributor of a topology on this machine.",
    ),
    "status": CommandPlace(
        "distributor.cli.look:status",
        "Show every cluster and the lag of every link, worked out from both ends' heads.",
    ),
    "verify": CommandPlace(
        "distributor.cli.judge:verify",
        "Compare all clusters, and their stores: all must have what any had at the start.",
    ),
    "wait": CommandPlace(
        "distributor.cli.waiting:wait",
        "Wait until everything published so far is on every cluster.",
    ),
    "audit": CommandPlace(
        "distributor.cli.judge:audit",
        "Compare the records of all clusters, and their copy flags with the tree, as a Spark job.",
    ),
    "trace": CommandPlace(
        "distributor.cli.look:trace",
        "Follow a record through the tree, hop by hop, with its copy flags.",
    ),
    "doctor": CommandPlace(
        "distributor.cli.look:doctor",
        "Say in plain words what is wrong with a running topology and what to do about it.",
    ),
    "dashboard": CommandPlace(
        "distributor.cli.look:dashboard",
        "Serve one web page: the tree, health, lag and rates as they change, records' ways.",
    ),
    "demo": CommandPlace(
        "distributor.cli.demo:demo",
        "Publish a real data set on all clusters and prove that all of it arrives on each, once.",
    ),
    "drill": CommandPlace(
        "distributor.cli.demo:drill",
        "Rehearse the loss of a cluster: load, kill it, survive, bring it back, compare.",
    ),
    "links": CommandPlace(
        "distributor.cli.steer:links",
        "Show where every link aims, and whether it drains or stands still.",
    ),
    "retarget": CommandPlace(
        "distributor.cli.steer:retarget",
        "Let a link serve another of its targets, without losing, repeating or "
        "reordering a record.",
    ),
    "resume": CommandPlace(
        "distributor.cli.steer:resume",
        "Let a link go on with what retention at its source has overtaken, behind the hole.",
    ),
    "lost": CommandPlace(
        "distributor.cli.steer:lost",
        "Leave a cluster that will not come back at once, and say which records nobody has.",
    ),
    "apply": CommandPlace(
        "distributor.cli.steer:apply",
        "Change the topology that `distributor up` runs on this machine, while records flow.",
    ),
    "offsets": CommandPlace(
        "distributor.cli.offsets:offsets",
        "Show the positions of groups on every cluster, and why; or set them.",
    ),
    "schemas": CommandPlace(
        "distributor.cli.schemas:schemas",
        "Copy schemas to all other registries while this cluster is the primary, until "
        "told to stop.",
    ),
    "spark": CommandPlace(
        "distributor.cli.spark_package:spark",
        "Prepare what Spark jobs need on a cluster of machines.",
    ),
    "replica": CommandPlace(
        "distributor.cli.replica:replica",
        "Run the flows that the controller in charge wants, until told to stop.",
    ),
    "controller": CommandPlace(
        "distributor.cli.controller:controller",
        "Decide which replica runs which link, and replace one that is gone.",
    ),
}

app = typer.Typer(
    cls=group_of(COMMANDS),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def distributor(version: Version = False) -> None:
    """Copy records between Dafka clusters along a tree: everywhere, exactly once, in order."""


def main() -> None:
    """Run the command line; a problem the user can mend is said on standard error.

    Exit codes: 0 done, or all is well; 1 clusters differ, lag or do not answer, or a process
    failed; 2 the call or the topology file cannot be used as given; 130 interrupted. `verify` has
    finer ones.
    """
    misuse = (TopologyError, PlanError, MisuseError)
    run("distributor", app, misuse, (DistributorError, DafkaError))
