"""`distributor trace`: where would a record go? Nothing has to run for the answer."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from distributor.cli.options import File, Json
from distributor.errors import PlanError
from distributor.loading import load
from topology import plan, spread
from topology.cli import top_level, trace_table
from topology.model import ClusterName
from topology.output import console, print_json

_FLAGS = re.compile("[01]{1,64}")
"""`int` would take more: signs, spaces, "0b1" and "1_0"."""


def trace(
    file: File,
    origin: Annotated[str, typer.Option("--from", help="The cluster it is published on.")],
    flags: Annotated[
        str, typer.Option(help="Copy flags it already has, in binary, as in 0100.")
    ] = "0",
    topic: Annotated[
        str, typer.Option(help="Its topic, where not all topics are on all clusters.")
    ] = "",
    json_lines: Json = False,
) -> None:
    """Follow a record through the tree, hop by hop, with its copy flags.

    Example: distributor trace config/four-clusters.yaml --from cluster-1
    """
    the_plan = plan(load(file))
    known = [cluster.name for cluster in the_plan.topology.clusters]
    if origin not in known:
        raise PlanError(f"no cluster {origin!r} in {file}: there are {', '.join(known)}")
    if not _FLAGS.fullmatch(flags):
        raise PlanError(f"flags {flags!r} are not up to 64 binary digits, as in 0100")
    part = the_plan.on(the_plan.topology.placed_on(topic))
    found = spread(part, ClusterName(origin), int(flags, 2))
    if json_lines:
        print_json(found.hops)
        return
    out = console()
    out.print(trace_table(found, top_level(the_plan.topology)))
    reached = {hop.target for hop in found.hops} | {origin}
    rest = [one.name for one in part.topology.clusters if one.name not in reached]
    if rest:
        out.print(f"does not reach {', '.join(rest)}", markup=False)
