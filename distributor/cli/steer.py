"""`distributor links`, `retarget`, `resume`, `lost`, `apply`: what links do, and changes of it."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dafka.plural import counted
from dafka.process.signals import interrupt_when_told
from distributor.cli.controller_asks import (
    Certificate,
    CertificateKey,
    ControllerCa,
    operator_certificates,
    pause_controlled,
    resume_controlled,
    retarget_controlled,
    tell_aimed,
    tell_passed,
)
from distributor.cli.options import DEFAULT_LOGS, File, Json
from distributor.control.client import ControlClient
from distributor.control.protocol import LinkRow
from distributor.errors import CommandError, PlanError
from distributor.local.processes import control_endpoints
from distributor.operations.apply import Applying
from distributor.operations.loss import Loss, declare_lost
from distributor.operations.status import StoppedPartition, ask_links
from topology import Plan, load, plan
from topology.cli import refusal_text
from topology.output import Columns, column, fields_of, number, open_console, print_json, table
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.diff import Step
    from topology.model import ClusterSpec

RETARGET_S_MAX = 90.0
"""A barrier is given up after a minute; opening the next link takes seconds."""

LOOK_S = 0.2

GONE_SHOWN_MAX = 20
"""More would scroll the summary away; --json has them all."""

Cluster = Annotated[str, typer.Option("--cluster", help="The cluster.")]

Level = Annotated[int, typer.Option("--level", help="The level of the link.")]


def links(file: File, json_lines: Json = False) -> None:
    """Show where every link aims, and whether it drains or stands still.

    Exit code 1 if a distributor or replica does not answer, or no replica writes a link, or a share
    of one, or brings its positions.

    Example: distributor links config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    if not any(cluster.controlled for cluster in the_plan.topology.clusters):
        _endpoints(the_plan)
    told = ask_links(the_plan)
    rows, silent = list(told.rows.values()), [*told.silent, *told.idle]
    if json_lines:
        print_json({"links": [_fields(row) for row in rows], "unreachable": silent})
    else:
        out = open_console()
        out.print(table(LINKS, rows, "where links aim"))
        for line in silent:
            out.print(Text(line, style="red"))
    if silent:
        raise typer.Exit(1)


def retarget(
    file: File,
    cluster: Cluster,
    level: Level,
    to: Annotated[str, typer.Option(help="The cluster to copy to from now on.")],
    json_lines: Json = False,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let a link serve another of its targets, without losing, repeating or reordering a record.

    It stops, waits until everything it sent is on every cluster behind its target, and goes on
    towards the other. Until the process is started again: write it into the file too, under
    `targets` of the cluster. Exit code 1 if the barrier is not met; nothing has changed then.

    Of a cluster with controllers the one in charge is told, on `listen` of the file, and keeps it
    for good, without a barrier: the same as `distributor controller retarget`.

    Example: distributor retarget F --cluster cluster-1 --level 3 --to cluster-4
    """
    if (controlled := _controlled(file, cluster)) is not None:
        shown = operator_certificates(certificate, certificate_key, controller_ca)
        tell_aimed(retarget_controlled(controlled, level, to, shown), as_json=json_lines)
        return
    with ControlClient(_endpoint(file, cluster, level)) as client:
        row = _retargeted(client, to)
    if json_lines:
        print_json(_fields(row))
    else:
        name = f"{row.source} level {row.level}"
        say(f"{name} serves {row.target}; it stood still {row.stall_ms} ms")


def _retargeted(client: ControlClient, to: str) -> LinkRow:
    """Give the command and wait for its end."""
    client.retarget(to)
    deadline = time.monotonic() + RETARGET_S_MAX
    branch: int | None = None
    waits_for = ""
    while time.monotonic() < deadline:
        rows = client.links()
        draining = [row for row in rows if row.next == to]
        there = [row for row in rows if row.target == to]
        if draining:
            waits_for, branch = draining[0].waits_for or waits_for, draining[0].branch
        elif there and all(row.stall_ms >= 0 for row in there):
            return there[0]
        elif not there and branch in {row.branch for row in rows if not row.next}:
            raise CommandError(f"not drained in time, nothing has changed: {waits_for}")
        time.sleep(LOOK_S)
    raise CommandError(f"not within {RETARGET_S_MAX:.0f} s: {waits_for or 'no link goes there'}")


def resume(
    file: File,
    cluster: Cluster,
    level: Level,
    topic: Annotated[str, typer.Option(help="The topic of which partitions are overtaken.")],
    json_lines: Json = False,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let a link go on with what retention at its source has overtaken, behind the hole.

    What the source keeps no more is passed over, for good: no other link brings it to the target
    afterwards. Targets behind this one have the hole, too: give the command for each link that
    stops. Exit code 1 if nothing of the topic is overtaken there.

    Of a cluster with controllers the one in charge is told, on `listen` of the file, and keeps it:
    the same as `distributor controller resume`. Exit code 2 if nothing is overtaken there.

    Example: distributor resume F --cluster cluster-1 --level 1 --topic orders
    """
    place = f"{cluster} level {level}"
    if (controlled := _controlled(file, cluster)) is not None:
        shown = operator_certificates(certificate, certificate_key, controller_ca)
        passed = resume_controlled(controlled, level, topic, shown)
        tell_passed(place, topic, passed, as_json=json_lines)
        return
    with ControlClient(_endpoint(file, cluster, level)) as client:
        passed = client.resume(topic)
    tell_passed(place, topic, passed, as_json=json_lines)


def lost(
    file: File,
    cluster: Cluster,
    json_lines: Json = False,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Leave a cluster that will not come back at once, and say which records nobody has.

    Links leave it without waiting for its silence. What only it had is gone: that is reported per
    partition, as far as it was known. Exit code 1 if something is gone or somebody did not answer.

    Of clusters with controllers the one in charge is told, on `listen` of the file, to let links
    serve another target, as by `distributor retarget`.

    Example: distributor lost F --cluster cluster-3
    """
    the_plan = plan(load(file))
    known = [declared.name for declared in the_plan.topology.clusters]
    if cluster not in known:
        raise PlanError(f"no cluster {cluster!r} in {file}: there are {', '.join(known)}")
    if not all(one.controlled for one in the_plan.topology.clusters if one.name != cluster):
        _endpoints(the_plan)
    shown = operator_certificates(certificate, certificate_key, controller_ca)
    loss = declare_lost(the_plan, cluster, partial(retarget_controlled, shown=shown))
    if json_lines:
        print_json({**fields_of(loss), "gone": None if loss.unknown else loss.gone})
    else:
        age = "never" if loss.age_s is None else f"{loss.age_s:.1f} s ago"
        who = "distributors or controllers"
        say(f"{loss.told} {who} have left {cluster}; it was last heard of {age}")
        for line in _cost(loss):
            say(line)
        for gone in loss.gone[:GONE_SHOWN_MAX]:
            say(f"  {gone.topic!r}/{gone.address[:8]}: {gone.records:,} from {gone.first:,} on")
        for line in loss.untold:
            say(f"  not told: {line}")
        for name in loss.unreachable:
            say(f"  does not answer: {name}")
    if loss.gone or loss.silent:
        raise typer.Exit(1)


def _cost(loss: Loss) -> Iterator[str]:
    """How many records are gone, or why nobody can say."""
    records = sum(gone.records for gone in loss.gone)
    counts = f"{counted(records, 'record')} in {counted(len(loss.gone), 'partition')}"
    if not loss.silent:
        yield f"{counts} are on no other cluster"
        return
    yield "it cannot be said which records are on no other cluster, as not all answer (below)"
    if loss.gone:
        yield f"as far as the others know, {counts} are"


def _controlled(file: Path, cluster: str) -> ClusterSpec | None:
    """A cluster of a file, if controllers drive its links."""
    found = [one for one in load(file).clusters if one.name == cluster and one.controlled]
    return found[0] if found else None


def _endpoint(file: Path, cluster: str, level: int) -> str:
    the_plan = plan(load(file))
    endpoints = _endpoints(the_plan)
    if (cluster, level) not in endpoints:
        known = ", ".join(f"{name} level {number}" for name, number in endpoints)
        raise PlanError(f"no distributor for {cluster!r} and level {level}: there are {known}")
    return endpoints[cluster, level]


def _endpoints(the_plan: Plan) -> dict[tuple[str, int], str]:
    if the_plan.topology.control is None:
        raise PlanError("the topology has no `control` sockets: see config/README.md")
    return {
        (distributor.cluster, distributor.level): endpoint
        for distributor, endpoint in control_endpoints(the_plan)
    }


def _fields(row: LinkRow) -> dict[str, Any]:
    """What it says, for scripts: topics as text."""
    fields = {name: getattr(row, name) for name in LinkRow.__struct_fields__}
    return {**fields, "stopped": [StoppedPartition.of(one) for one in row.stopped]}


def _state(row: LinkRow) -> str:
    state = f"draining for {row.next}" if row.next else row.state
    if row.waits_for:
        state += f": {row.waits_for}"
    stopped = row.diverged + row.overtaken + row.refused
    if stopped:
        state += f", without {counted(stopped, 'partition')}: see distributor status"
    return state


LINKS: Columns[LinkRow] = (
    column("source"),
    column("target"),
    number("level", lambda row: f"{row.level} {row.topics}".strip()),
    number("changes", lambda row: str(row.switches)),
    number("last stall in ms", lambda row: "stands" if row.stall_ms < 0 else row.stall_ms),
    column("state", _state),
)


STEP_LOOK_S = 0.5
"""How often a step is looked at."""

Wanted = Annotated[Path, typer.Argument(help="The new topology, a YAML file.")]


def apply(
    file: Wanted,
    logs: Annotated[
        Path, typer.Option("--logs", help="The logs' directory of the `up` that runs.")
    ] = DEFAULT_LOGS,
    patience_s: Annotated[
        float, typer.Option(min=1.0, help="How many seconds one step may take.")
    ] = 600.0,
    json_lines: Json = False,
) -> None:
    """Change the topology that `distributor up` runs on this machine, while records flow.

    Takes the steps that `topology diff` lists and waits for the end of each. Then the file of `up`
    has the contents of FILE. Interrupted, it lets links go on that controllers have paused for it,
    unless the new file is in place already, and goes on when it is given again. Exit code 1 if the
    change is refused or a step does not come to its end.

    Example: distributor apply five.yaml
    """
    applying = Applying(logs, file, retarget_controlled, pause_controlled)
    if applying.change.refusals:
        if json_lines:
            rules = [refusal.rule for refusal in applying.change.refusals]
            print_json({"applied": False, "steps": [], "refused": rules})
        say(refusal_text(applying.change.refusals), file=sys.stderr)
        raise typer.Exit(1)
    interrupt_when_told()
    taken: list[dict[str, Any]] = []
    with ExitStack() as unfinished:
        unfinished.callback(_give_up, applying)
        waits_for = _take_all(applying, patience_s, taken)
        if not waits_for:
            applying.finish()
            unfinished.pop_all()
    if json_lines:
        print_json({"applied": not waits_for, "steps": taken, "waits_for": waits_for})
    if waits_for:
        raise CommandError(f"given up after {patience_s:g} s of waiting for {waits_for}")
    if not json_lines:
        say("applied" if taken else "nothing has to be done")


def _take_all(applying: Applying, patience_s: float, taken: list[dict[str, Any]]) -> str:
    """Take step after step, and note those that are; returns what one waited for too long."""
    console = open_console(stderr=True)
    for place, step in enumerate(applying.steps, 1):
        began_s = time.monotonic()
        title = f"{place} of {len(applying.steps)}  {step.text}"
        waits_for = _take(applying, step, title, console, began_s + patience_s)
        if waits_for:
            return waits_for
        took_s = round(time.monotonic() - began_s, 1)
        taken.append({"action": step.action.value, "text": step.text, "took_s": took_s})
        console.print(f"{title}  ({took_s:g} s)", markup=False, highlight=False)
    return ""


def _give_up(applying: Applying) -> None:
    """Say what becomes of what was paused; a controller that does not answer takes a while."""
    with open_console(stderr=True).status("letting links go on"):
        for line in applying.give_up():
            say(line, file=sys.stderr)


def _take(applying: Applying, step: Step, title: str, console: Console, deadline_s: float) -> str:
    """Look at a step until it is done; returns what it waited for when time was up."""
    with console.status(title) as status:
        while True:
            waits_for = applying.look(step)
            if not waits_for or time.monotonic() >= deadline_s:
                return waits_for
            status.update(f"{title}: waits for {waits_for}")
            time.sleep(STEP_LOOK_S)
