"""`distributor apply`: from the topology that runs to another, step by step, while records flow."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from distributor.cli.options import DEFAULT_LOGS, Json
from distributor.errors import CommandError
from distributor.operations.apply import Applying
from topology.cli import refusal_text
from topology.output import print_json

if TYPE_CHECKING:
    from topology.diff import Step

LOOK_S = 0.5
"""How often a step is looked at."""

Wanted = Annotated[Path, typer.Argument(help="The topology that is to run, a YAML file.")]


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
    has the contents of FILE. Interrupted, it goes on when it is given again. Exit code 1 if
    the change is refused or a step does not come to its end.

    Example: distributor apply five.yaml
    """
    applying = Applying(logs, file)
    if applying.change.refusals:
        if json_lines:
            rules = [refusal.rule for refusal in applying.change.refusals]
            print_json({"applied": False, "steps": [], "refused": rules})
        print(refusal_text(applying.change.refusals), file=sys.stderr)
        raise typer.Exit(1)
    console = Console(stderr=True)
    taken: list[dict[str, Any]] = []
    waits_for = ""
    for number, step in enumerate(applying.steps, 1):
        began_s = time.monotonic()
        title = f"{number} of {len(applying.steps)}  {step.text}"
        waits_for = _take(applying, step, title, console, began_s + patience_s)
        if waits_for:
            break
        took_s = round(time.monotonic() - began_s, 1)
        taken.append({"action": step.action.value, "text": step.text, "took_s": took_s})
        console.print(f"{title}  ({took_s:g} s)", markup=False, highlight=False)
    if not waits_for:
        applying.finish()
    if json_lines:
        print_json({"applied": not waits_for, "steps": taken, "waits_for": waits_for})
    if waits_for:
        raise CommandError(f"given up after {patience_s:g} s of waiting for {waits_for}")
    if not json_lines:
        print("applied" if taken else "nothing has to be done")


def _take(applying: Applying, step: Step, title: str, console: Console, deadline_s: float) -> str:
    """Look at a step until it is done; returns what it waited for when time was up."""
    with console.status(title) as status:
        while True:
            waits_for = applying.look(step)
            if not waits_for or time.monotonic() >= deadline_s:
                return waits_for
            status.update(f"{title}: waits for {waits_for}")
            time.sleep(LOOK_S)
