"""The documentation as a site: it is whole, says what the code has, and loads nothing more."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import dafka
import dafka.cli.main
import distributor
import distributor.cli.main
import topology
import topology.cli
from tests.support.json_outputs import OUTPUTS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
APPS = {
    "dafka": dafka.cli.main.app,
    "topology": topology.cli.app,
    "distributor": distributor.cli.main.app,
}
NAMES = [(package, name) for package in (dafka, topology, distributor) for name in package.__all__]


def built(site, *, config=ROOT / "mkdocs.yml"):
    """Build it; MkDocs ends with 1 where a page or a place in one is not there, unless --quiet."""
    command = ("mkdocs", "build", "--strict", "--config-file", config)
    return subprocess.run(
        [sys.executable, "-m", *map(str, command), "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    where = tmp_path_factory.mktemp("site")
    done = built(where)
    assert done.returncode == 0, done.stdout + done.stderr
    return where


def text_of(page):
    """What people read of a page."""
    article = page.read_text().partition("<article")[2].partition("</article>")[0]
    return html.unescape(re.sub(r"<[^>]+>", "", article))


def all_below(name, command):
    yield name, command
    for below, one in getattr(command, "commands", {}).items():
        yield from all_below(f"{name} {below}", one)


@pytest.mark.parametrize("program", APPS)
def test_every_command_is_there_with_its_options_and_example(site, program):
    text = text_of(site / "commands" / f"{program}.html")
    for name, command in get_command(APPS[program]).commands.items():
        for called, one in all_below(f"{program} {name}", command):
            assert f"{called}¶" in text
            options = [option for parameter in one.params for option in parameter.opts]
            assert [option for option in options if option not in text] == []
        assert f"$ {program} {name}" in text or f"| {program} {name}" in text


def test_every_public_name_is_there(site):
    page = (site / "api.html").read_text()
    found = [getattr(package, name) for package, name in NAMES]
    places = [f"{one.__module__}.{one.__qualname__}" for one in found]
    assert [place for place in places if f'id="{place}"' not in page] == []


def test_every_metric_that_an_alert_asks_for_is_there(site):
    asked = re.findall(
        r"\b((?:dafka|distributor)_\w+?)(?:_bucket)?\b", (ROOT / "deploy/alerts.yml").read_text()
    )
    text = text_of(site / "metrics.html")
    assert {name for name in asked if name not in text} == set()


def test_every_object_of_a_command_is_there_with_its_fields(site):
    text = text_of(site / "json.html")
    for command, objects in OUTPUTS.items():
        _, _, rest = text.partition(f"{command}¶")
        shown = rest.partition("¶")[0]
        assert [name for fields in objects for name in fields if f'"{name}"' not in shown] == []
    assert (site / "json-output.schema.json").exists()


def test_what_stands_outside_of_the_folder_is_a_page_and_is_led_to(site):
    assert 'href="topology-file.html"' in (site / "tutorial.html").read_text()
    assert 'href="tutorial.html"><code>docs/tutorial.md</code>' in (site / "index.html").read_text()
    index = text_of(site / "index.html")
    assert "Records published on any cluster arrive on every cluster" in index


def test_nothing_is_loaded_from_elsewhere(site):
    loading = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*")
    loaded = {page.name: loading.findall(page.read_text()) for page in sorted(site.rglob("*.html"))}
    assert {name for name, found in loaded.items() if found} == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\(\"?https?:[^)]*", styles) == []


def test_a_link_to_what_is_not_there_is_refused(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("# Here\n\n[there](nowhere.md)\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    validation = re.search(r"^validation:\n(?:  .*\n)+", settings, re.MULTILINE)
    assert validation is not None
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"site_name: broken\n{validation[0]}")
    done = built(tmp_path / "site", config=config)
    assert done.returncode == 1
    assert "nowhere.md" in done.stdout + done.stderr
