"""`distributor`: run, replica, up, schemas, status, verify, audit, trace, doctor, demo, drill."""

from __future__ import annotations

import typer

from dafka.cli.command import Place, group_of, run
from dafka.errors import DafkaError, MisuseError
from distributor.errors import DistributorError, PlanError
from topology.errors import TopologyError

COMMANDS = {
    "run": Place(
        "distributor.cli.run:run",
        "Copy one cluster's records across one level, until told to stop.",
    ),
    "up": Place(
        "distributor.cli.up:up",
        "Run every tower, store and distributor of a topology on this machine.",
    ),
    "status": Place(
        "distributor.cli.look:status",
        "Show every cluster and the lag of every link, worked out from both ends' heads.",
    ),
    "verify": Place(
        "distributor.cli.judge:verify",
        "Compare all clusters, and the stores of each: what one has when it begins is due on all.",
    ),
    "wait": Place(
        "distributor.cli.waiting:wait",
        "Wait until all that is published so far is on every cluster that it is for.",
    ),
    "audit": Place(
        "distributor.cli.judge:audit",
        "Compare the records of all clusters, and their copy flags with the tree, as a Spark job.",
    ),
    "trace": Place(
        "distributor.cli.look:trace",
        "Follow a record through the tree, hop by hop, with its copy flags.",
    ),
    "doctor": Place(
        "distributor.cli.look:doctor",
        "Say in plain words what is wrong with a running topology and what to do about it.",
    ),
    "dashboard": Place(
        "distributor.cli.look:dashboard",
        "Serve one web page: the tree, health, lag and rates as they change, records' ways.",
    ),
    "demo": Place(
        "distributor.cli.demo:demo",
        "Publish a real data set on all clusters and prove that all of it arrives on each, once.",
    ),
    "drill": Place(
        "distributor.cli.demo:drill",
        "Rehearse the loss of a cluster: load, kill it, survive, bring it back, compare.",
    ),
    "links": Place(
        "distributor.cli.steer:links",
        "Show where every link aims, and whether it drains or stands still.",
    ),
    "retarget": Place(
        "distributor.cli.steer:retarget",
        "Let a link serve another of its targets, without losing, repeating or "
        "reordering a record.",
    ),
    "resume": Place(
        "distributor.cli.steer:resume",
        "Let a link go on with what retention at its source has overtaken, behind the hole.",
    ),
    "lost": Place(
        "distributor.cli.steer:lost",
        "Take a cluster that will not come back out at once, and say which records nobody has.",
    ),
    "apply": Place(
        "distributor.cli.steer:apply",
        "Change the topology that `distributor up` runs on this machine, while records flow.",
    ),
    "offsets": Place(
        "distributor.cli.offsets:offsets",
        "Show where groups stand on every cluster, and why; or say where they are to go on.",
    ),
    "schemas": Place(
        "distributor.cli.schemas:schemas",
        "Copy schemas to all other registries while this cluster is the primary, until "
        "told to stop.",
    ),
    "replica": Place(
        "distributor.cli.replica:replica",
        "Run the flows that the controller in charge wants, until told to stop.",
    ),
    "controller": Place(
        "distributor.cli.controller:controller",
        "Say which replica runs which link, and let another one when it is gone.",
    ),
}

app = typer.Typer(
    cls=group_of(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def distributor() -> None:
    """Copy records between Dafka clusters along a tree: everywhere, exactly once, in order."""


def main() -> None:
    """Run the command line; a problem the user can mend is said on standard error.

    Exit codes: 0 done, or all is well; 1 clusters differ, lag or do not answer, or a process
    failed; 2 the call or the topology file cannot be used as given; 130 interrupted. `verify` has
    finer ones.
    """
    misuse = (TopologyError, PlanError, MisuseError)
    run("distributor", app, misuse, (DistributorError, DafkaError))
