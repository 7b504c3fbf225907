"""`topology`: check, show, plan, prove."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topology.copyflags import format_flags
from topology.errors import InvalidError, TopologyError
from topology.loading import load
from topology.picture import render_png
from topology.plan import plan as plan_of
from topology.prove import prove as prove_plan
from topology.render import render_dot, render_mermaid, render_text
from topology.spread import Spread

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The tree of clusters, declared in one YAML file: check it, see it, prove it.",
)

File = Annotated[Path, typer.Argument(help="The topology, a YAML file (config/README.md).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]


class Format(Enum):
    """Ways to show a tree."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    PNG = "png"


@app.command()
def check(file: File, json_lines: Json = False) -> None:
    """Say whether a topology may be used; if not, name every problem and what to do.

    Exit code 2 if it may not.

    Example: topology check config/four-clusters.yaml
    """
    if json_lines:
        try:
            load(file)
        except InvalidError as error:
            problems = [
                {"path": problem.path, "message": problem.message, "hint": problem.hint}
                for problem in error.problems
            ]
            print(json.dumps({"valid": False, "problems": problems}))
            raise typer.Exit(2) from error
        print(json.dumps({"valid": True, "problems": []}))
        return
    topology = load(file)
    links = plan_of(topology).links
    print(f"{file}: valid, {len(topology.clusters)} clusters, {len(links)} links")


@app.command()
def show(
    file: File,
    form: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TEXT,
    output: Annotated[
        Path | None, typer.Option(help="Write here instead of to the terminal; png needs it.")
    ] = None,
) -> None:
    """Draw the tree.

    Example: topology show config/four-clusters.yaml --format png --output tree.png
    """
    topology = load(file)
    if form is Format.PNG:
        if output is None:
            raise typer.BadParameter("a PNG needs --output FILE")
        octets = render_png(topology)
    else:
        render = {
            Format.TEXT: render_text,
            Format.MERMAID: render_mermaid,
            Format.DOT: render_dot,
        }[form]
        octets = (render(topology) + "\n").encode()
    if output is None:
        sys.stdout.write(octets.decode())
        return
    try:
        output.write_bytes(octets)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {str(output)!r}: {error.strerror}") from error


@app.command()
def plan(file: File, json_lines: Json = False) -> None:
    """List every link: which cluster copies to which, across which level.

    Example: topology plan config/four-clusters.yaml
    """
    links = plan_of(load(file)).links
    if json_lines:
        rows = [
            {"source": link.source, "level": link.level, "targets": list(link.targets)}
            for link in links
        ]
        print(json.dumps(rows))
        return
    table = Table("source", "level", "target", "further targets", title=f"links of {file}")
    for link in links:
        table.add_row(
            Text(link.source), str(link.level), Text(link.target), Text(", ".join(link.targets[1:]))
        )
    Console().print(table)


@app.command()
def prove(file: File, json_lines: Json = False) -> None:
    """Run the copy-flag algorithm on this tree, for every origin and every choice of targets.

    Each record must reach each cluster exactly once. Exit code 1 and a trace if one does not.

    Example: topology prove config/four-clusters.yaml
    """
    proof = prove_plan(plan_of(load(file)))
    if json_lines:
        facts = {
            "holds": proof.holds,
            "origins": proof.origins,
            "runs": proof.runs,
            "combinations": proof.combinations,
            "complete": proof.complete,
            "failure": proof.failure,
        }
        print(json.dumps(facts))
    elif proof.holds:
        of = "all" if proof.complete else f"of {proof.combinations:,}"
        print(
            f"holds: {proof.origins} origins, {proof.runs:,} runs ({of} combinations of targets): "
            "each cluster exactly once, no loop, levels strictly fall"
        )
    else:
        assert proof.counter_example is not None
        print(f"does not hold: {proof.failure}", file=sys.stderr)
        Console().print(trace_table(proof.counter_example))
    if not proof.holds:
        raise typer.Exit(1)


def trace_table(found: Spread) -> Table:
    """Every hop of a spread with its flags."""
    table = Table("hop", "from", "flags", "level", "to", "flags there")
    table.title = f"a record published on {found.origin}"
    for number, hop in enumerate(found.hops, 1):
        table.add_row(
            str(number),
            Text(hop.source),
            format_flags(hop.flags_before),
            str(hop.level),
            Text(hop.target),
            format_flags(hop.flags_after),
        )
    return table


def main() -> None:
    """Run the command line; a file that cannot be used is explained on standard error."""
    try:
        app()
    except TopologyError as error:
        print(f"topology: {error}", file=sys.stderr)
        sys.exit(2)
