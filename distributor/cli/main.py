"""`distributor`: run, up, schemas, status, verify, audit, trace, doctor, dashboard, demo, drill."""

from __future__ import annotations

import sys

import typer

from dafka.errors import DafkaError, MisuseError
from distributor.cli.aim import links, lost, retarget
from distributor.cli.apply import apply
from distributor.cli.audit import audit
from distributor.cli.dashboard import dashboard
from distributor.cli.demo import demo
from distributor.cli.doctor import doctor
from distributor.cli.drill import drill
from distributor.cli.offsets import offsets
from distributor.cli.run import run
from distributor.cli.schemas import schemas
from distributor.cli.status import status
from distributor.cli.trace import trace
from distributor.cli.up import up
from distributor.cli.verify import verify
from distributor.errors import DistributorError, PlanError
from topology.errors import TopologyError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Copy records between Dafka clusters along a tree: everywhere, exactly once, in order.",
)
for command in (
    run,
    up,
    status,
    verify,
    audit,
    trace,
    doctor,
    dashboard,
    demo,
    drill,
    links,
    retarget,
    lost,
    apply,
):
    app.command()(command)
app.add_typer(offsets, name="offsets")
app.add_typer(schemas, name="schemas")


def main() -> None:
    """Run the command line; a problem the user can mend is said on standard error.

    Exit codes: 0 done, or all is well; 1 clusters differ, lag or do not answer, or a process
    failed; 2 the call or the topology file cannot be used as given. `verify` has finer ones.
    """
    try:
        app()
    except (TopologyError, PlanError, MisuseError) as error:
        print(f"distributor: {error}", file=sys.stderr)
        sys.exit(2)
    except (DistributorError, DafkaError) as error:
        print(f"distributor: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
