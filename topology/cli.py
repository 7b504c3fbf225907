"""`topology`: check, show, plan, names, prove, diff.

Exit codes: 0 good, 1 a counter-example was found or a change is refused, 2 the file or the command
line cannot be used.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from topology.copyflags import bit, format_flags, mask
from topology.diff import diff as changes_between
from topology.errors import InvalidError, Problem, TopologyError
from topology.loading import load
from topology.model import Topology, branches
from topology.names import Names
from topology.picture import render_png
from topology.plan import plan as plan_of
from topology.prove import prove as prove_plan
from topology.render import render_dot, render_mermaid, render_text
from topology.spread import Spread
from topology.tables import WholeTable, console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.diff import Step
    from topology.transition import Refusal

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The tree of clusters, declared in one YAML file: check it, see it, prove it.",
    epilog="Exit codes: 0 good, 1 prove found a counter-example or diff refuses the change, "
    "2 the file cannot be used.",
)

File = Annotated[Path, typer.Argument(help="The topology, a YAML file (config/README.md).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]

_COUNTED = ("clusters", "levels", "distributors", "links")


class TreeFormat(Enum):
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
        topology, problems = _examined(file)
        rows = [
            {
                "path": problem.path,
                "line": problem.line,
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in problems
        ]
        counts = dict.fromkeys(_COUNTED) if topology is None else _counts(topology)
        print(json.dumps({"valid": not problems, "problems": rows, **counts}))
        if problems:
            raise typer.Exit(2)
        return
    topology = _loaded(file)
    facts = [
        f"{count} {noun.removesuffix('s') if count == 1 else noun}"
        for noun, count in _counts(topology).items()
    ]
    mute = [cluster.name for cluster in topology.clusters if cluster.receive_only]
    facts += [f"{name} only receives" for name in mute]
    facts += [f"{rule.topics!r} on {', '.join(rule.clusters)} only" for rule in topology.placement]
    facts += [f"epoch {topology.levels.epoch}"] * (topology.levels.epoch > 0)
    print(f"{file}: valid: {', '.join(facts)}")


def _counts(topology: Topology) -> dict[str, int]:
    """How much a topology declares."""
    the_plan = plan_of(topology)
    levels = {branch.level for branch in branches(topology.tree)}
    parts = (topology.clusters, levels, the_plan.distributors, the_plan.links)
    return dict(zip(_COUNTED, map(len, parts), strict=True))


@app.command()
def show(
    file: File,
    form: Annotated[TreeFormat, typer.Option("--format", help="How to show it.")] = TreeFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option(help="Write here instead of to the terminal; png needs it.")
    ] = None,
) -> None:
    """Draw the tree.

    Example: topology show config/four-clusters.yaml --format png --output tree.png
    """
    if form is TreeFormat.PNG and output is None:
        raise typer.BadParameter("a PNG needs --output FILE")
    topology = _loaded(file)
    if form is TreeFormat.PNG:
        octets = _picture(topology)
    else:
        render = {
            TreeFormat.TEXT: render_text,
            TreeFormat.MERMAID: render_mermaid,
            TreeFormat.DOT: render_dot,
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
    the_plan = plan_of(_loaded(file))
    if json_lines:
        rows = [
            {
                "source": link.source,
                "level": link.level,
                "branch": link.branch,
                "looks_at": mask(link.level),
                "sets": bit(link.level),
                "targets": list(link.targets),
                "topics": link.topics,
            }
            for link in the_plan.links
        ]
        print(json.dumps(rows))
        return
    top = top_level(the_plan.topology)
    table = WholeTable(
        "source", "level", "looks at", "sets", "target", "else", title=f"links of {file}"
    )
    for number, link in enumerate(the_plan.links, 1):
        table.add_row(
            Text(link.source),
            Text(link.crossing),
            format_flags(mask(link.level), top),
            format_flags(bit(link.level), top),
            Text(link.target),
            Text(", ".join(link.targets[1:])),
            end_section=the_plan.links[number : number + 1] == ()
            or the_plan.links[number].source != link.source,
        )
    console().print(table)


@app.command()
def names(
    file: File,
    topic: Annotated[str, typer.Argument(help="A topic, by the name that users see.")],
    field: Annotated[
        list[str] | None, typer.Option(help="The value of a field, FIELD=VALUE; may be repeated.")
    ] = None,
    json_lines: Json = False,
) -> None:
    """Show the technical name of a topic, and its subjects on every cluster.

    Example: topology names config/schemas.yaml orders --field environment=dev
    """
    topology = _loaded(file)
    values = dict(_field(text) for text in field or ())
    try:
        rows = [_names_at(topology, cluster.name, topic, values) for cluster in topology.clusters]
    except TopologyError as error:
        raise _refusal(error) from error
    if json_lines:
        print(json.dumps(rows))
        return
    table = WholeTable(*rows[0])
    for row in rows:
        table.add_row(*map(Text, row.values()))
    console().print(table)


def _names_at(
    topology: Topology, cluster: str, topic: str, values: dict[str, str]
) -> dict[str, str]:
    named = Names(topology, cluster)
    technical = named.topic(topic, **values)
    subjects = {part: named.subject(technical, part) for part in ("key", "value")}
    return {"cluster": cluster, "topic": technical, **subjects}


def _field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE")
    return name, value


@app.command()
def prove(file: File, json_lines: Json = False) -> None:
    """Run the copy-flag algorithm on this tree, for every origin and every choice of targets.

    Each record must reach each cluster exactly once. Exit code 1 and a trace if one does not.

    Example: topology prove config/four-clusters.yaml
    """
    topology = _loaded(file)
    proof = prove_plan(plan_of(topology))
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
        origins = f"{proof.origins} origin{'s' * (proof.origins != 1)}"
        ways = f"every choice of targets in {proof.runs:,} runs"
        if not proof.complete:
            ways = (
                f"{proof.runs:,} runs of {proof.combinations:,} possible, "
                "with every target of every link among them"
            )
        print(f"holds: {origins}, {ways}")
        print("       each cluster exactly once, never back, levels strictly fall")
    else:
        assert proof.counter_example is not None
        print(f"does not hold: {proof.failure}", file=sys.stderr)
        console().print(trace_table(proof.counter_example, top_level(topology)))
    if not proof.holds:
        raise typer.Exit(1)


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="The topology that runs, a YAML file.")],
    new: Annotated[Path, typer.Argument(help="The topology that is to run.")],
    json_lines: Json = False,
) -> None:
    """List the steps from one topology to another, in the order that keeps every record.

    Exit code 1 if the change would lose records: every rule that it breaks is named. `distributor
    apply` takes the steps.

    Example: topology diff four.yaml five.yaml
    """
    change = changes_between(_loaded(old), _loaded(new))
    if json_lines:
        facts = {
            "allowed": not change.refusals,
            "steps": [
                {
                    "action": step.action.value,
                    "cluster": step.cluster,
                    "level": step.level,
                    "to": step.to,
                    "topics": step.topics,
                    "text": step.text,
                }
                for step in change.steps
            ],
            "refusals": [asdict(refusal) for refusal in change.refusals],
        }
        print(json.dumps(facts))
    elif change.steps:
        console().print(steps_table(change.steps, f"from {old} to {new}"))
    elif not change.refusals:
        print("nothing has to be done")
    else:
        print(refusal_text(change.refusals), file=sys.stderr)
    if change.refusals:
        raise typer.Exit(1)


def steps_table(steps: Sequence[Step], title: str) -> WholeTable:
    """The steps of a change, in order."""
    table = WholeTable("", "step", "what", title=Text(title))
    for number, step in enumerate(steps, 1):
        table.add_row(str(number), step.action.value, Text(step.text))
    return table


def refusal_text(refusals: Sequence[Refusal]) -> str:
    """Why a change is not made: every rule it breaks, and what to do instead."""
    lines = ["refused, as records would be lost:"]
    for refusal in refusals:
        lines += [f"  {refusal.rule}: {refusal.message}", f"      hint: {refusal.hint}"]
    return "\n".join(lines)


def trace_table(found: Spread, top: int = 4) -> WholeTable:
    """Every hop of a spread with its flags, a digit for each level up to `top`."""
    table = WholeTable("hop", "from", "flags", "level", "to", "flags there")
    table.title = f"a record published on {found.origin}"
    for number, hop in enumerate(found.hops, 1):
        table.add_row(
            str(number),
            Text(hop.source),
            format_flags(hop.flags_before, top),
            str(hop.level),
            Text(hop.target),
            format_flags(hop.flags_after, top),
        )
    return table


def top_level(topology: Topology) -> int:
    """The highest level of a tree; 0 for a single cluster."""
    return max((branch.level for branch in branches(topology.tree)), default=0)


def _loaded(file: Path) -> Topology:
    """Load a topology; explain on standard error why it cannot be."""
    try:
        return load(file)
    except TopologyError as error:
        raise _refusal(error) from error


def _picture(topology: Topology) -> bytes:
    try:
        return render_png(topology)
    except TopologyError as error:
        raise _refusal(error) from error


def _refusal(error: TopologyError) -> typer.Exit:
    print(f"topology: {error}", file=sys.stderr)
    return typer.Exit(2)


def _examined(file: Path) -> tuple[Topology | None, list[Problem]]:
    """A topology, or all that is wrong with its file, one that cannot be read included."""
    try:
        return load(file), []
    except InvalidError as error:
        return None, error.problems
    except TopologyError as error:
        return None, [Problem("$", str(error))]


def main() -> None:
    """Run the command line."""
    app()
