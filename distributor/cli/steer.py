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
from distributor.control.protocol import LinkRow, PassedOver
from distributor.errors import CommandError, PlanError
from distributor.local.processes import control_endpoints
from distributor.operations.apply import Applying, alone
from distributor.operations.host_moves import HostMoves
from distributor.operations.loss import Loss, declare_lost
from distributor.operations.status import StoppedPartition, ask_links
from topology import Plan, load, plan
from topology.cli import refusal_text
from topology.deployment import CONFIG, FILE_NAME
from topology.output import Columns, column, fields_of, number, open_console, print_json, table
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    with ExitStack() as stack:
        endpoints = _shares(file, cluster, level)
        clients = [stack.enter_context(ControlClient(endpoint)) for endpoint in endpoints]
        row = _retargeted(clients, to)
    if json_lines:
        print_json(_fields(row))
    else:
        name = f"{row.source} level {row.level}"
        say(f"{name} serves {row.target}; it stood still {row.stall_ms} ms")


def _retargeted(clients: Sequence[ControlClient], to: str) -> LinkRow:
    """Give the command to each share and wait for its end; of shares the longest stall counts.

    Raises:
        CommandError: None obeys, or some do not answer: in containers, each has its own sockets.
    """
    told: list[ControlClient] = []
    refusals: list[CommandError] = []
    for client in clients:
        try:
            client.retarget(to)
            told.append(client)
        except CommandError as error:
            refusals.append(error)
    if not told:
        raise refusals[0]
    row = _waited_for(told, to)
    if refusals:
        done = f"{counted(len(told), 'share')} of {len(clients)} did"
        raise CommandError(f"{done}, give the command where the others are: {refusals[0]}")
    return row


def _waited_for(clients: Sequence[ControlClient], to: str) -> LinkRow:
    deadline = time.monotonic() + RETARGET_S_MAX
    begun: set[tuple[int, int]] = set()
    """Shares and branches that were seen to drain."""
    waits_for = ""
    while time.monotonic() < deadline:
        shares = dict(enumerate(client.links() for client in clients))
        draining = [(one, row) for one, rows in shares.items() for row in rows if row.next == to]
        there = [row for rows in shares.values() for row in rows if row.target == to]
        left = [one for one, rows in shares.items() if all(row.target != to for row in rows)]
        begun |= {(one, row.branch) for one, row in draining}
        if draining:
            waits_for = draining[0][1].waits_for or waits_for
        elif not left and all(row.stall_ms >= 0 for row in there):
            return max(there, key=lambda row: row.stall_ms)
        elif any((one, row.branch) in begun for one in left for row in shares[one]):
            some = f"{counted(len(there), 'share')} of {len(clients)} did" if there else ""
            raise CommandError(f"not drained in time, {some or 'nothing has changed'}: {waits_for}")
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
    stops. Exit code 1 if nothing of the topic is overtaken there, or a link there is on hold.

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
    passed = _resumed(_shares(file, cluster, level), topic)
    tell_passed(place, topic, passed, as_json=json_lines)


def _resumed(endpoints: Sequence[str], topic: str) -> PassedOver:
    """Have all shares go on that have something to pass over.

    Raises:
        CommandError: None has, or one refuses or does not answer.
    """
    refusals: list[CommandError] = []
    partitions = records = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(ControlClient(endpoint)) for endpoint in endpoints]
        for client in clients:
            client.links()  # who is silent is told of before anything is done
        for client in clients:
            try:
                passed = client.resume(topic)
            except CommandError as error:
                refusals.append(error)
                continue
            partitions, records = partitions + passed.partitions, records + passed.records
    if refusals:
        others = f"; other shares go on with {counted(partitions, 'partition')}"
        raise CommandError(f"{refusals[0]}{others if partitions else ''}") from refusals[0]
    if not partitions:
        raise CommandError(f"no partition of topic {topic!r} is overtaken here")
    return PassedOver(partitions, records)


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


def _shares(file: Path, cluster: str, level: int) -> list[str]:
    """Where each share of a cluster's links of a level takes commands."""
    the_plan = plan(load(file))
    endpoints = _endpoints(the_plan)
    if (cluster, level) not in endpoints:
        known = ", ".join(f"{name} level {number}" for name, number in endpoints)
        raise PlanError(f"no distributor for {cluster!r} and level {level}: there are {known}")
    return endpoints[cluster, level]


def _endpoints(the_plan: Plan) -> dict[tuple[str, int], list[str]]:
    if the_plan.topology.control is None:
        raise PlanError("the topology has no `control` sockets: see config/README.md")
    endpoints: dict[tuple[str, int], list[str]] = {}
    for distributor, endpoint in control_endpoints(the_plan):
        endpoints.setdefault((distributor.cluster, distributor.level), []).append(endpoint)
    return endpoints


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

TOLD_S = 10.0
"""So often a step says what it waits for, where no terminal shows it all the time."""

RUNNING = Path(CONFIG, FILE_NAME)
"""Where `topology deploy` has it brought."""

Wanted = Annotated[Path, typer.Argument(help="The new topology, a YAML file.")]


def apply(
    file: Wanted,
    logs: Annotated[
        Path, typer.Option("--logs", help="The logs' directory of the `up` that runs.")
    ] = DEFAULT_LOGS,
    host: Annotated[
        str | None,
        typer.Option(help="Move slots of the stores of this host, which no `up` runs."),
    ] = None,
    running: Annotated[
        Path, typer.Option(help="With --host: the file that the processes of the host run with.")
    ] = RUNNING,
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

    With --host it moves slots between stores of several hosts, of which each starts and stops its
    processes by itself. Give it on each, as the user of its stores, before its new stores start and
    the file is brought there: it prepares their directories, says what to start and stop, here and
    on other hosts, waits for that, and moves the slots. It changes no file.

    Example: distributor apply five.yaml
    """
    if host is not None:
        _change(HostMoves(host, running, file), patience_s, json_lines=json_lines)
        return
    with alone(logs):
        applying = Applying(logs, file, retarget_controlled, pause_controlled)
        _change(applying, patience_s, json_lines=json_lines)


def _change(applying: Applying | HostMoves, patience_s: float, *, json_lines: bool) -> None:
    """Take all steps, and say so."""
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


def _take_all(
    applying: Applying | HostMoves, patience_s: float, taken: list[dict[str, Any]]
) -> str:
    """Take step after step, and note those that are; returns what one waited for too long."""
    console = open_console(stderr=True)
    for place, step in enumerate(applying.steps, 1):
        began_s = time.monotonic()
        title = f"{place} of {len(applying.steps)}  {step.text}"
        waits_for = _take(partial(applying.look, step), title, console, patience_s)
        if waits_for:
            return waits_for
        took_s = round(time.monotonic() - began_s, 1)
        taken.append({"action": step.action.value, "text": step.text, "took_s": took_s})
        console.print(f"{title}  ({took_s:g} s)", markup=False, highlight=False)
    return ""


def _give_up(applying: Applying | HostMoves) -> None:
    """Say what becomes of what was paused; a controller that does not answer takes a while."""
    with open_console(stderr=True).status("letting links go on"):
        for line in applying.give_up():
            say(line, file=sys.stderr)


def _take(look: Callable[[], str], title: str, console: Console, patience_s: float) -> str:
    """Look at a step until it is done; returns what it waited for when time was up.

    Who waits says so, for how long, and how long he will.
    """
    began_s = time.monotonic()
    told_s = began_s - TOLD_S  # the first time at once
    with console.status(title) as status:
        while True:
            waits_for, now_s = look(), time.monotonic()
            if not waits_for or now_s >= began_s + patience_s:
                return waits_for
            waited = f"{now_s - began_s:.0f} s of {patience_s:g}"
            told = f"{title}: waits for {waits_for} ({waited})"
            status.update(told)
            if not console.is_terminal and now_s >= told_s + TOLD_S:
                console.print(told, markup=False, highlight=False, soft_wrap=True)
                told_s = now_s
            time.sleep(STEP_LOOK_S)
