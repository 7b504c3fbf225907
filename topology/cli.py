"""`topology`: init, check, show, plan, names, prove, diff, size, deploy.

Exit codes: 0 good, 1 a counter-example was found or a change is refused, 2 the file or the command
line cannot be used.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from topology.capacity import Workload
from topology.capacity import size as size_of
from topology.copyflags import bit, format_flags, mask
from topology.deploying import DeploymentTarget, deployment_files, write_deployment
from topology.diff import diff as changes_between
from topology.errors import InvalidError, Problem, TopologyError
from topology.extras import MissingExtraError, told_of_extras
from topology.files import file_problems
from topology.kubernetes import KubernetesSettings
from topology.loading import load
from topology.model import ClusterName, Topology, branches
from topology.names import Names
from topology.output import (
    Columns,
    column,
    end_unwritten,
    fields_of,
    number,
    open_console,
    print_json,
    table,
)
from topology.plan import plan as plan_of
from topology.prove import prove as prove_plan
from topology.quantities import bytes_of, seconds_of, shown_bytes
from topology.render import render_dot, render_mermaid, render_text
from topology.spread import Spread
from topology.starter import CLUSTERS_MAX, starter
from topology.terminal import complain, end_with_version, installed_version, paragraphs, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from topology.capacity import ClusterSize, ProcessSize
    from topology.diff import Step
    from topology.plan import Link
    from topology.spread import Hop
    from topology.transition import Refusal


class WrappedHelp(TyperGroup):
    """Commands whose help is wrapped where it is shown."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(**attributes)
        for command in self.commands.values():
            command.help = paragraphs(command.help or "")
            command.short_help, _, _ = command.help.partition("\n\n")


app = typer.Typer(
    cls=WrappedHelp,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 good, 1 prove found a counter-example or diff refuses the change, "
    "2 the file cannot be used.",
)

File = Annotated[Path, typer.Argument(help="The topology, a YAML file (config/README.md).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]

_COUNTED = ("clusters", "levels", "distributors", "links")


@app.callback()
def topology(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=end_with_version, is_eager=True, help="Say the version, and end."
        ),
    ] = False,
) -> None:
    """The tree of clusters, declared in one YAML file: check it, see it, prove it."""


class TreeFormat(Enum):
    """Ways to show a tree."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    PNG = "png"


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="Where to write it; it must not be there.")] = Path(
        "topology.yaml"
    ),
    clusters: Annotated[
        int, typer.Option(min=2, max=CLUSTERS_MAX, help="How many clusters it declares.")
    ] = 2,
) -> None:
    """Write a topology file to begin with: clusters on this machine, under a binary tree.

    Example: topology init topology.yaml --clusters 4
    """
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(starter(clusters))
    except FileExistsError as error:
        raise typer.BadParameter(f"{str(file)!r} is there: name another, or remove it") from error
    except OSError as error:
        raise typer.BadParameter(f"cannot write {str(file)!r}: {error.strerror}") from error
    say(f"{file}: {clusters} clusters; run all of it with: distributor up {shlex.quote(str(file))}")


@app.command()
def check(
    file: File,
    files: Annotated[
        bool,
        typer.Option("--files", help="Also check that this user can read the files it names."),
    ] = False,
    json_lines: Json = False,
) -> None:
    """Check a topology file: name every problem and what to do.

    Exit code 2 if there is one.

    Example: topology check config/four-clusters.yaml
    """
    if json_lines:
        topology, problems = _examined(file, files=files)
        keys = ("path", "line", "message", "hint")
        rows = [{name: getattr(problem, name) for name in keys} for problem in problems]
        counts = dict.fromkeys(_COUNTED) if topology is None else _counts(topology)
        print_json({"valid": not problems, "problems": rows, **counts})
        if problems:
            raise typer.Exit(2)
        return
    topology = _loaded(file)
    if files and (problems := file_problems(topology, file.parent)):
        raise _refusal(InvalidError(str(file), problems))
    counts = _counts(topology)
    replicas = sum(len(cluster.replicas) for cluster in topology.clusters)
    if replicas:
        counts["replicas"] = replicas
        counts["controllers"] = sum(len(cluster.controllers) for cluster in topology.clusters)
    facts = [
        f"{count} {noun.removesuffix('s') if count == 1 else noun}"
        for noun, count in counts.items()
    ]
    mute = [cluster.name for cluster in topology.clusters if cluster.receive_only]
    facts += [f"{name} only receives" for name in mute]
    facts += [f"{rule.topics!r} on {', '.join(rule.clusters)} only" for rule in topology.placement]
    facts += [f"epoch {topology.levels.epoch}"] * (topology.levels.epoch > 0)
    say(f"{file}: valid: {', '.join(facts)}")


def _counts(topology: Topology) -> dict[str, int]:
    """How much a topology declares."""
    the_plan = plan_of(topology)
    levels = {branch.level for branch in branches(topology.tree)}
    controlled = {cluster.name for cluster in topology.clusters if cluster.controlled}
    distributors = [one for one in the_plan.distributors if one.cluster not in controlled]
    parts = (topology.clusters, levels, distributors, the_plan.links)
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
    rows = [LinkOfPlan.of(link) for link in the_plan.links]
    if json_lines:
        print_json({"links": rows})
        return
    top = top_level(the_plan.topology)
    columns: Columns[LinkOfPlan] = (
        column("source"),
        column("level", lambda row: f"{row.level} {row.topics}".strip()),
        column("looks at", lambda row: format_flags(row.looks_at, top)),
        column("sets", lambda row: format_flags(row.sets, top)),
        column("target", lambda row: row.targets[0]),
        column("else", lambda row: ", ".join(row.targets[1:])),
    )
    title = f"links of {file}"
    open_console().print(table(columns, rows, title, section=lambda row: row.source))


@dataclass(frozen=True, slots=True)
class LinkOfPlan:
    """One link, as `--json` tells it; flags are numbers there."""

    source: str
    level: int
    branch: int
    looks_at: int
    sets: int
    targets: tuple[str, ...]
    topics: str

    @classmethod
    def of(cls, link: Link) -> LinkOfPlan:
        """What a plan says of it."""
        looks_at, sets = mask(link.level), bit(link.level)
        return cls(link.source, link.level, link.branch, looks_at, sets, link.targets, link.topics)


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
        print_json({"names": rows})
    else:
        open_console().print(table(NAMES, rows))


@dataclass(frozen=True, slots=True)
class NamesRow:
    """What a topic and its subjects are called on one cluster, as `--json` tells it."""

    cluster: str
    topic: str
    key: str
    value: str


NAMES: Columns[NamesRow] = tuple(map(column, ("cluster", "topic", "key", "value")))


def _names_at(topology: Topology, cluster: str, topic: str, values: dict[str, str]) -> NamesRow:
    named = Names(topology, cluster)
    technical = named.topic(topic, **values)
    key, value = (named.subject(technical, part) for part in ("key", "value"))
    return NamesRow(cluster, technical, key, value)


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
        facts = fields_of(proof)
        del facts["counter_example"]
        print_json({"holds": proof.holds, **facts})
    elif proof.holds:
        origins = f"{proof.origins} origin{'s' * (proof.origins != 1)}"
        ways = f"every choice of targets in {proof.runs:,} runs"
        if not proof.complete:
            ways = (
                f"{proof.runs:,} runs of {proof.combinations:,} possible, "
                "with every target of every link among them"
            )
        say(f"holds: {origins}, {ways}")
        say("       each cluster exactly once, never back, levels strictly fall")
    else:
        assert proof.counter_example is not None
        say(f"does not hold: {proof.failure}", file=sys.stderr)
        open_console().print(trace_table(proof.counter_example, top_level(topology)))
    if not proof.holds:
        raise typer.Exit(1)


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="The topology that runs, a YAML file.")],
    new: Annotated[Path, typer.Argument(help="The new topology.")],
    json_lines: Json = False,
) -> None:
    """List the steps from one topology to another, in the order that keeps every record.

    Exit code 1 if the change would lose records: every rule that it breaks is named. `distributor
    apply` takes the steps.

    Example: topology diff four.yaml five.yaml
    """
    change = changes_between(_loaded(old), _loaded(new))
    if json_lines:
        steps, refusals = change.steps, change.refusals
        print_json({"allowed": not refusals, "steps": steps, "refusals": refusals})
    elif change.steps:
        title = f"from {old} to {new}"
        open_console().print(table(STEPS, change.steps, title, numbered=""))
    elif not change.refusals:
        say("nothing has to be done")
    else:
        say(refusal_text(change.refusals), file=sys.stderr)
    if change.refusals:
        raise typer.Exit(1)


STEPS: Columns[Step] = (column("step", lambda step: step.action.value), column("what", "text"))


def refusal_text(refusals: Sequence[Refusal]) -> str:
    """Why a change is not made: every rule it breaks, and what to do instead."""
    lines = ["refused, as records would be lost:"]
    for refusal in refusals:
        lines += [f"  {refusal.rule}: {refusal.message}", f"      hint: {refusal.hint}"]
    return "\n".join(lines)


@app.command()
def size(
    file: File,
    rate: Annotated[
        list[str],
        typer.Option(
            metavar="[CLUSTER=]RECORDS",
            help="Records a second that are published on each cluster, or on one; may be repeated.",
        ),
    ],
    record: Annotated[
        str, typer.Option(metavar="BYTES", help="Size of one record: 100, 1KB or 1KiB.")
    ] = "1KB",
    retention: Annotated[
        str, typer.Option(metavar="TIME", help="How long stores keep records: 12h or 7d.")
    ] = "1d",
    consumers: Annotated[int, typer.Option(min=0, help="Live consumers on each cluster.")] = 0,
    partitions: Annotated[
        int, typer.Option(min=1, help="Partitions of each cluster: producers times their topics.")
    ] = 10,
    json_lines: Json = False,
) -> None:
    """Work out disk, network, memory and CPU of every process and cluster, for a load.

    From who copies to whom, and from costs that were measured (docs/capacity.md).

    Example: topology size config/four-clusters.yaml --rate 50000 --record 1KB --retention 7d
    """
    topology = _loaded(file)
    try:
        workload = Workload(
            rates=_rates(topology, rate),
            record_bytes=bytes_of(record),
            keep_s=seconds_of(retention),
            consumers=consumers,
            partitions=partitions,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    found = size_of(plan_of(topology), workload)
    if json_lines:
        print_json(found)
        return
    console = open_console()
    console.print(
        table(
            PROCESS_SIZES, found.processes, f"processes of {file}", section=lambda one: one.cluster
        )
    )
    console.print(table(CLUSTER_SIZES, found.clusters, "clusters, without producers"))
    for warning in found.warnings:
        say(warning)


def _rates(topology: Topology, given: Sequence[str]) -> dict[ClusterName, float]:
    """What is published on each cluster: the last number that is given for it."""
    names = [cluster.name for cluster in topology.clusters]
    rates = dict.fromkeys(names, 0.0)
    for text in given:
        name, equals, count = text.rpartition("=")
        chosen = [one for one in names if one == name or not equals]
        if not chosen:
            raise ValueError(
                f"{text!r}: there is no cluster {name!r}; there are {', '.join(names)}"
            )
        if not count.isascii() or not count.isdigit():
            raise ValueError(f"{text!r} is not RECORDS or CLUSTER=RECORDS, a whole number")
        rates |= dict.fromkeys(chosen, float(count))
    return rates


def _bytes(name: str) -> Callable[[object], str | None]:
    def shown(row: object) -> str | None:
        value = getattr(row, name)
        return None if value is None else shown_bytes(value)

    return shown


PROCESS_SIZES: Columns[ProcessSize] = (
    column("cluster"),
    column("process"),
    number("records/s", lambda one: round(one.records_per_s)),
    number("in/s", _bytes("in_bytes_per_s")),
    number("out/s", _bytes("out_bytes_per_s")),
    number("cores"),
    number("memory", _bytes("memory_bytes")),
    number("disk", _bytes("disk_bytes")),
)

CLUSTER_SIZES: Columns[ClusterSize] = (
    column("cluster"),
    number("in/s", _bytes("in_bytes_per_s")),
    number("out/s", _bytes("out_bytes_per_s")),
    number("cores"),
    number("memory", _bytes("memory_bytes")),
    number("disk", _bytes("disk_bytes")),
)


@app.command()
def deploy(
    target: Annotated[DeploymentTarget, typer.Argument(help="What runs the processes.")],
    file: File,
    out: Annotated[
        Path, typer.Option(help="Where to write it; what an earlier call made there is replaced.")
    ],
    image: Annotated[str, typer.Option(help="Of containers; by default of this version.")] = "",
    namespace: Annotated[str, typer.Option(help="kubernetes: where all of it is.")] = "dafka",
    storage: Annotated[str, typer.Option(help="kubernetes: what a store asks for.")] = "50Gi",
    json_lines: Json = False,
) -> None:
    """Write what runs a topology: manifests, or compose files or units of each of its hosts.

    What is changed is listed. Only processes that read something else are started again.

    Example: topology deploy kubernetes deploy/kubernetes.yaml --out out
    """
    settings = KubernetesSettings(
        image=image or f"dafka-distributor:{installed_version()}",
        namespace=namespace,
        storage=storage,
    )
    try:
        changed = write_deployment(deployment_files(target, file, settings), out)
    except TopologyError as error:
        raise _refusal(error) from error
    if json_lines:
        print_json({"changed": changed})
    else:
        for name in changed:
            say(str(out / name))
        say(f"{len(changed)} files changed" if changed else "nothing has changed")


def trace_table(found: Spread, top: int = 4) -> Table:
    """Every hop of a spread with its flags, a digit for each level up to `top`."""
    columns: Columns[Hop] = (
        column("from", "source"),
        column("flags", lambda hop: format_flags(hop.flags_before, top)),
        column("level"),
        column("to", "target"),
        column("flags there", lambda hop: format_flags(hop.flags_after, top)),
    )
    return table(columns, found.hops, f"a record published on {found.origin}", numbered="hop")


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
    # Only who wants a picture need wait for `PIL`.
    from topology.picture import render_png

    try:
        return render_png(topology)
    except TopologyError as error:
        raise _refusal(error) from error


def _refusal(error: TopologyError) -> typer.Exit:
    complain("topology", error)
    return typer.Exit(2)


def _examined(file: Path, *, files: bool) -> tuple[Topology | None, list[Problem]]:
    """A topology, or all that is wrong with its file, one that cannot be read included."""
    try:
        topology = load(file)
        return topology, file_problems(topology, file.parent) if files else []
    except InvalidError as error:
        return None, error.problems
    except TopologyError as error:
        return None, [Problem("$", str(error))]


def main() -> None:
    """Run the command line."""
    try:
        try:
            with told_of_extras():
                app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except MissingExtraError as error:
        complain("topology", error)
        sys.exit(2)
    except OSError as error:
        end_unwritten("topology", error)
