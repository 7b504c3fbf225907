"""`distributor`: run, replica, up, schemas, status, verify, audit, trace, doctor, demo, drill."""

from __future__ import annotations

import typer

from dafka.cli.command import group_of, run
from dafka.errors import DafkaError, MisuseError
from distributor.errors import DistributorError, PlanError
from topology.errors import TopologyError

COMMANDS = {
    "run": "distributor.cli.run:run",
    "up": "distributor.cli.up:up",
    "status": "distributor.cli.look:status",
    "verify": "distributor.cli.judge:verify",
    "wait": "distributor.cli.waiting:wait",
    "audit": "distributor.cli.judge:audit",
    "trace": "distributor.cli.look:trace",
    "doctor": "distributor.cli.look:doctor",
    "dashboard": "distributor.cli.look:dashboard",
    "demo": "distributor.cli.demo:demo",
    "drill": "distributor.cli.demo:drill",
    "links": "distributor.cli.steer:links",
    "retarget": "distributor.cli.steer:retarget",
    "resume": "distributor.cli.steer:resume",
    "lost": "distributor.cli.steer:lost",
    "apply": "distributor.cli.steer:apply",
    "offsets": "distributor.cli.offsets:offsets",
    "schemas": "distributor.cli.schemas:schemas",
    "replica": "distributor.cli.replica:replica",
    "controller": "distributor.cli.controller:controller",
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
