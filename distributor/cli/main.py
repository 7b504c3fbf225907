"""`distributor`: run, up, schemas, status, verify, audit, trace, doctor, dashboard, demo, drill."""

from __future__ import annotations

import typer

from dafka.cli.command import group_of, run
from dafka.errors import DafkaError, MisuseError
from distributor.errors import DistributorError, PlanError
from topology.errors import TopologyError

COMMANDS = {
    "run": "distributor.cli.run:run",
    "up": "distributor.cli.up:up",
    "status": "distributor.cli.status:status",
    "verify": "distributor.cli.verify:verify",
    "audit": "distributor.cli.audit:audit",
    "trace": "distributor.cli.trace:trace",
    "doctor": "distributor.cli.doctor:doctor",
    "dashboard": "distributor.cli.dashboard:dashboard",
    "demo": "distributor.cli.demo:demo",
    "drill": "distributor.cli.drill:drill",
    "links": "distributor.cli.aim:links",
    "retarget": "distributor.cli.aim:retarget",
    "lost": "distributor.cli.aim:lost",
    "apply": "distributor.cli.apply:apply",
    "offsets": "distributor.cli.offsets:offsets",
    "schemas": "distributor.cli.schemas:schemas",
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
