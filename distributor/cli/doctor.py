"""`distributor doctor`: an examination of a running topology."""

from __future__ import annotations

import typer
from rich.text import Text

from dafka.plural import counted
from dafka.process.clock import wall_ms
from distributor.cli.options import File, Json
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.operations.doctor import examine
from topology import plan
from topology.output import console, print_json


def doctor(file: File, json_lines: Json = False) -> None:
    """Say in plain words what is wrong with a running topology and what to do about it.

    Causes come before what suffers from them. Exit code 1 if anything is wrong.

    Example: distributor doctor config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    findings = examine(the_plan, processes_of(the_plan, file), wall_ms())
    if json_lines:
        print_json({"well": not findings, "findings": findings})
    else:
        out = console()
        for number, finding in enumerate(findings, 1):
            out.print(Text(f"{number}. {finding.about}", style="bold"))
            out.print(Text(f"   {finding.what}", style="red"), soft_wrap=True)
            out.print(Text(f"   → {finding.do}"), soft_wrap=True)
        if not findings:
            clusters = counted(len(the_plan.topology.clusters), "cluster")
            links = counted(len(the_plan.links), "link")
            out.print(Text(f"all well: {clusters}, {links}", style="green"))
    if findings:
        raise typer.Exit(1)
