"""The documents stay true: commands, links, ports."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
import readme_renderer.markdown
import yaml
from typer.main import get_command

import dafka
import dafka.cli.main
import distributor.cli.main
import topology.cli
from distributor.local.processes import processes_of
from topology import load, plan
from topology.decode import KEYS
from topology.processes import ProcessKind

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted(ROOT.glob("*.md")) + sorted(
    path for folder in ("docs", "config", "deploy") for path in (ROOT / folder).rglob("*.md")
)
APPS = {
    "dafka": dafka.cli.main.app,
    "topology": topology.cli.app,
    "distributor": distributor.cli.main.app,
}
COMMANDS = [
    (program, name, command)
    for program, app in APPS.items()
    for name, command in get_command(app).commands.items()
]


@pytest.mark.parametrize(("program", "name", "command"), COMMANDS, ids=lambda value: str(value))
def test_every_command_shows_an_example(program, name, command):
    assert f"Example: {program} {name}" in (command.help or "") or "Example: seq" in command.help


@pytest.mark.parametrize(("program", "name", "command"), COMMANDS, ids=lambda value: str(value))
def test_every_option_is_explained(program, name, command):
    for parameter in command.params:
        assert parameter.help, f"{program} {name} {parameter.name}"


def test_the_readme_is_short_and_leads_nowhere_where_a_page_of_an_index_has_nothing():
    words = re.sub(r"```.*?```", "", README, flags=re.DOTALL).split()
    assert len(words) <= 900
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]*)\)", README))


def test_every_extra_that_users_may_want_is_on_the_page_of_installing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/installing.md").read_text(), re.MULTILINE)
    assert {*rows} == project["optional-dependencies"].keys() - {"bench", "dev", "docs"}


def test_the_readme_can_be_shown_by_an_index():
    assert readme_renderer.markdown.render(README, stream=sys.stderr) is not None


def test_the_readme_names_no_command_that_does_not_exist():
    known = {(program, name) for program, name, _ in COMMANDS}
    named = re.findall(r"(?:`|\$ )(dafka|topology|distributor) ([a-z]+)", README)
    assert set(named) <= known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_path_that_a_document_names_exists(document):
    paths = set(
        re.findall(
            r"`((?:\.?[\w-]+/)+(?:[\w.-]+\.(?:py|md|ya?ml|json|txt))?)`", document.read_text()
        )
    )
    assert len(paths) > 10 or document.name not in ("architecture.md", "CONTRIBUTING.md")
    places = (ROOT, ROOT / "tests", document.parent)
    assert not [path for path in paths if not any((place / path).exists() for place in places)]


def test_the_picture_of_the_packages_has_every_room():
    picture = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    distributor_, dafka_ = re.split(r"^dafka ", picture, flags=re.MULTILINE)
    for package, room in (("distributor", distributor_), ("dafka", dafka_)):
        drawn = set(re.findall(r"(?:│ |  )([a-z]+)(?=  )", room))
        packages = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        assert packages <= drawn, package


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind in KEYS for key in KEYS[kind]])
def test_every_key_of_the_topology_file_stands_in_its_reference(kind, key):
    sections = re.split(r"^## ", (ROOT / "config/README.md").read_text(), flags=re.MULTILINE)
    (section,) = [text for text in sections if text.lower().startswith(f"the {kind}\n")]
    assert re.search(rf"^\| `{key}` \|", section, flags=re.MULTILINE)


def test_the_prometheus_example_scrapes_the_processes_of_the_demo():
    file = ROOT / "config/four-clusters.yaml"
    jobs = {
        job["job_name"]: [
            target for static in job["static_configs"] for target in static["targets"]
        ]
        for job in yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]
    }
    processes = processes_of(plan(load(file)), file)
    for kind in ProcessKind:
        expected = [process.metrics for process in processes if process.kind is kind]
        # The demo has no registries.
        assert jobs.get(f"{kind.value}s", []) == expected


def test_the_readme_shows_what_prove_prints(monkeypatch, capsys):
    shown = re.search(r"\$ topology (prove \S+)\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["topology", *shown[1].split()])
    with pytest.raises(SystemExit) as exit_:
        topology.cli.main()
    assert not exit_.value.code
    assert capsys.readouterr().out == shown[2]


def test_the_python_example_of_the_readme_runs(tmp_path, free_ports, capsys):
    example = re.search(r"```python\n(from dafka import .*?)```", README, re.DOTALL)
    assert example is not None
    first = free_ports(4)
    code = example[1].replace("tcp://127.0.0.1:5556", f"tcp://127.0.0.1:{first}")
    query = f"tcp://127.0.0.1:{first + 2}"
    tower = f"tcp://127.0.0.1:{first}"
    with dafka.Tower(tower), dafka.Store(tmp_path / "store", tower, query=query):
        exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "Delivery(topic='numbers'" in out
    assert "b'answer' b'42'" in out


def test_the_page_of_schemas_shows_what_names_prints(monkeypatch, capsys):
    page = (ROOT / "docs/schemas.md").read_text()
    shown = re.search(r"\$ topology (names [^\n]*)\n(.*?)\$ distributor up", page, re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["topology", *shown[1].split()])
    with pytest.raises(SystemExit) as exit_:
        topology.cli.main()
    assert not exit_.value.code
    assert capsys.readouterr().out == shown[2]


def test_the_readme_does_not_promise_another_number_of_rows():
    assert "362,891" in README
    assert "DEMO_OUTPUT" not in README
