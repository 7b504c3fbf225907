"""Pages of the site that are no files in this folder: some stand elsewhere, some are made of code.

MkDocs calls `on_files` and `on_page_markdown`. Nothing that is made here is kept: commands and
options, the names of the packages and metrics stand once, in the code.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File
from prometheus_client.metrics import MetricWrapperBase
from typer.main import get_command

import dafka.cli.main
import distributor.cli.main
import topology.cli

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from click import Command, Parameter
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "config/README.md": "topology-file.md",
    "deploy/README.md": "deployment.md",
}
"""Documents outside of this folder, and where they are on the site."""

APPS = {
    "dafka": dafka.cli.main.app,
    "topology": topology.cli.app,
    "distributor": distributor.cli.main.app,
}
METERS = [
    ROOT / "dafka/process/metrics.py",
    *sorted(ROOT.glob("dafka/*/meter.py")),
    *sorted(ROOT.glob("distributor/*/meter.py")),
]

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_NAMED = re.compile(r"`((?:[\w-]+/)*[\w-]+\.md)`(?!\])")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"Example: (.*)", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    made = {uri: (ROOT / path).read_text() for path, uri in ELSEWHERE.items()}
    made |= {f"commands/{program}.md": commands_page(program) for program in APPS}
    made |= {"api.md": api_page(), "json.md": json_page(), "metrics.md": metrics_page()}
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Have links lead where their targets are on the site."""
    places = {uri: path for path, uri in ELSEWHERE.items()}
    here = Path(places.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def place(path: str) -> str | None:
        uri = ELSEWHERE.get(path) or path.removeprefix("docs/")
        return None if uri == path else os.path.relpath(uri, Path(page.file.src_uri).parent)

    def led(link: re.Match[str]) -> str:
        text, path = link[1], os.path.normpath(here.parent / link[2])
        if to := place(path):
            return f"[{text}]({to}{link[3] or ''})"
        return text if path in text else f"{text} (`{path}`)"  # of the repository only

    def named(path: re.Match[str]) -> str:
        to = place(path[1]) if (ROOT / path[1]).exists() else None
        return f"[{path[0]}]({to})" if to else path[0]

    parts = re.split(_FENCE, markdown)
    fences = [*re.findall(_FENCE, markdown), ""]
    led_parts = (_NAMED.sub(named, _LINK.sub(led, part)) for part in parts)
    return "".join(part + fence for part, fence in zip(led_parts, fences, strict=True))


def commands_page(program: str) -> str:
    """All commands of a program with their options."""
    app = get_command(APPS[program])
    lines = [f"# {program}", "", _plain(app.help or ""), ""]
    for name, command in app.commands.items():  # type: ignore[attr-defined]
        lines += _command(f"{program} {name}", command, level=2)
    return "\n".join(lines)


def _command(name: str, command: Command, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {name}", "")
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        example = _EXAMPLE.fullmatch(" ".join(paragraph.split()))
        if example:
            yield from ("```console", f"$ {example[1]}", "```", "")
        else:
            yield from (_plain(" ".join(paragraph.split())), "")
    parameters = [one for one in command.params if one.name != "help"]
    if parameters:
        yield from ("| | | default |", "|---|---|---|")
        yield from (_parameter(one) for one in parameters)
        yield ""
    for below, one in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {below}", one, level + 1)


def _parameter(one: Parameter) -> str:
    names = ", ".join([*one.opts, *one.secondary_opts]) if one.opts[0][0] == "-" else one.name
    asked = one.default
    if one.required:
        default = "required"
    elif asked in (None, False, (), []) or callable(asked):
        default = ""
    else:
        default = f"`{getattr(asked, 'value', asked)}`"
    choices = ", ".join(
        f"`{getattr(choice, 'value', choice)}`" for choice in getattr(one.type, "choices", ())
    )
    meaning = _plain(getattr(one, "help", "") or "") + (f" One of {choices}." if choices else "")
    cells = (f"`{names}`", meaning, default)
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """A text in which nothing but code in backticks is marked."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<>\[\]|\\])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [part.replace("|", r"\|") for part in parts[1::2]]
    return "`".join(parts)


def api_page() -> str:
    """What the three packages offer by name."""
    lines = ["# Python", "", "What `import` finds in each package, from its docstrings.", ""]
    for package in (dafka, topology, distributor):
        lines += [f"## {package.__name__}", ""]
        for name in sorted(package.__all__):
            found = getattr(package, name)
            lines += [f"::: {found.__module__}.{found.__qualname__}", ""]
    return "\n".join(lines)


def json_page() -> str:
    """The objects that commands print with `--json`, as their schemas have them."""
    schemas = json.loads((ROOT / "docs/json-output.schema.json").read_text())["$defs"]
    lines = ["# JSON", "", "What commands print with `--json`, an object a line. The same as "]
    lines[-1] += "[JSON Schema](json-output.schema.json), and [what to rely on](scripts.md#json)."
    for command, schema in schemas.items():
        lines += ["", f"## {command}", "", "```"]
        lines += map(_shape, schema.get("anyOf", [schema]))
        lines += ["```"]
    return "\n".join(lines)


def _shape(schema: dict[str, Any]) -> str:
    """A schema as what it describes looks like, with kinds in place of values."""
    if "anyOf" in schema:
        return " or ".join(map(_shape, schema["anyOf"]))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    kinds = schema.get("type", "any")
    if kinds == "array":
        return f"[{_shape(schema.get('items', {}))}, …]"
    if kinds == "object":
        members = [f'"{name}": {_shape(one)}' for name, one in schema.get("properties", {}).items()]
        if isinstance(others := schema.get("additionalProperties"), dict):
            members.append(f"NAME: {_shape(others)}")
        return f"{{{', '.join(members)}}}"
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def metrics_page() -> str:
    """The metrics of all processes."""
    lines = ["# Metrics", "", "At `/metrics` of each process, for Prometheus.", ""]
    for path in METERS:
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        metrics = [one for one in vars(module).values() if isinstance(one, MetricWrapperBase)]
        if metrics:
            lines += [f"## {path.relative_to(ROOT).as_posix()}", ""]
            lines += [
                "| metric | kind | meaning | labels |",
                "|---|---|---|---|",
                *_rows(metrics),
                "",
            ]
    return "\n".join(lines)


def _rows(metrics: Iterable[MetricWrapperBase]) -> Iterator[str]:
    for one in metrics:
        (family,) = one.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in one._labelnames)  # noqa: SLF001
        yield f"| `{name}` | {family.type} | {_plain(family.documentation)} | {labels} |"
