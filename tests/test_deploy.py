"""What is in deploy/, and what is made from it, is what its own tools take."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from prometheus_client import REGISTRY
from typer.main import get_command

from dafka.cli.main import app as dafka_app
from distributor.cli.called import called_controller, called_replica
from distributor.cli.main import app as distributor_app
from topology import load, plan
from topology.compose import DATA
from topology.deploying import DeploymentTarget, deployment_files, write_deployment
from topology.kubernetes import USER, KubernetesSettings

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
AUDIT = DEPLOY / "dafka-audit.service"
KUBERNETES = DeploymentTarget.KUBERNETES, "kubernetes.yaml"
MADE = {
    (target, file): deployment_files(target, DEPLOY / file, KubernetesSettings(image="dafka:1"))
    for target, file in (
        KUBERNETES,
        *((DeploymentTarget.COMPOSE, file) for file in ("topology.yaml", "controlled.yaml")),
        *((DeploymentTarget.SYSTEMD, file) for file in ("topology.yaml", "controlled.yaml")),
    )
}
"""What `topology deploy` writes, by target and topology."""
BESIDE_PYTHON = str(Path(sys.executable).parent)
"""Where pip puts tools, also when the virtual environment is not the shell's."""
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
GRAFANA = json.loads((DEPLOY / "grafana.json").read_text())
EXPRESSIONS = [rule["expr"] for rule in ALERTS.values()] + [
    target["expr"] for panel in GRAFANA["panels"] for target in panel["targets"]
]
OF_PROMETHEUS_ITSELF = {"up", "process_start_time_seconds", "process_resident_memory_bytes"}


def run(*words, **settings):
    """Run a tool; a test without its tool skips and says what to install."""
    program = shutil.which(words[0]) or shutil.which(words[0], path=BESIDE_PYTHON)
    if program is None:
        pytest.skip(f"{words[0]} is not installed: make tools")
    done = subprocess.run(
        [program, *words[1:]], capture_output=True, text=True, timeout=60, check=False, **settings
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_alert_rules_are_rules_and_fire_when_they_should():
    run("promtool", "check", "rules", str(DEPLOY / "alerts.yml"))
    run("promtool", "test", "rules", str(DEPLOY / "alerts_test.yml"))


def test_the_prometheus_example_is_a_configuration():
    run("promtool", "check", "config", str(DEPLOY / "prometheus.yml"))


def test_every_alert_has_its_test():
    tested = {
        case["alertname"]
        for test in yaml.safe_load((DEPLOY / "alerts_test.yml").read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert tested == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_its_section_in_the_runbook(alert):
    text = (ROOT / "docs/operations.md").read_text()
    section = re.search(rf"^### {alert}\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    assert section is not None
    assert "**Means.**" in section[1]
    assert "**Do.**" in section[1]
    assert ALERTS[alert]["annotations"]["runbook_url"] == f"docs/operations.md#{alert.lower()}"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_that_is_asked_for_exists(expression):
    known = set(series())
    without_text = re.sub(r'"[^"]*"', "", expression)
    asked = set(re.findall(r"\b(?:up|(?:dafka|distributor|process)_[a-z_]+)\b", without_text))
    assert asked
    assert asked <= known | OF_PROMETHEUS_ITSELF


def series():
    """Names of the series that our processes serve: those of all commands, which load late."""
    for app in (dafka_app, distributor_app):
        assert list(get_command(app).commands.values())
    for collected in REGISTRY.collect():
        for suffix in ("", "_total", "_bucket", "_count", "_sum"):
            yield collected.name + suffix


def test_grafana_asks_what_prometheus_understands(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run("promtool", "check", "rules", str(file))


def test_grafana_panels_do_not_overlap():
    taken = set()
    for panel in GRAFANA["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))
    assert len({panel["id"] for panel in GRAFANA["panels"]}) == len(GRAFANA["panels"])


@pytest.mark.parametrize("file", ["topology.yaml", "controlled.yaml"])
def test_systemd_takes_the_units(file, tmp_path):
    made = MADE[DeploymentTarget.SYSTEMD, file]
    write_deployment(made, tmp_path)
    (user,) = {re.search("^User=(.*)$", text, re.MULTILINE)[1] for text in services_of(made)}
    assert user == "dafka"
    places = [str(path) for path in sorted(tmp_path.rglob("*.service"))]
    assert len(places) == sum(name.endswith(".service") for name in made) > 20
    assert run("systemd-analyze", "verify", *places, str(AUDIT)) == ""


def services_of(made):
    return [text for name, text in made.items() if name.endswith(".service")]


def test_the_dockerfile_has_no_fault():
    run("hadolint", str(DEPLOY / "Dockerfile"))


def test_the_image_has_the_directory_of_a_store():
    text = (DEPLOY / "Dockerfile").read_text()
    assert f"install --directory --owner=dafka /data {DATA}\n" in text
    assert f"useradd --uid {USER} " in text


@pytest.mark.parametrize("file", ["topology.yaml", "controlled.yaml"])
def test_docker_compose_takes_the_files(file, tmp_path):
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
    compose = ["docker", "compose"]
    found = shutil.which("docker") and subprocess.run(
        [*compose, "version"], capture_output=True, timeout=60, check=False, env=environment
    )
    if not found or found.returncode:
        compose = ["docker-compose"]
    write_deployment(MADE[DeploymentTarget.COMPOSE, file], tmp_path)
    hosts = sorted(tmp_path.iterdir())
    assert len(hosts) in (4, 12)
    for host in hosts[:3]:
        words = ("--file", "compose.yaml", "config")
        told = run(*compose, *words, cwd=host, env=environment)
        assert f"tcp://{host.name}:5556" in told or "replica" in told


def test_kustomize_takes_the_manifests(tmp_path):
    write_deployment(MADE[KUBERNETES], tmp_path)
    made = [*yaml.safe_load_all(run("kubectl", "kustomize", str(tmp_path)))]
    for document in made:
        kubernetes_validate.validate(document, "1.31", strict=True)
    (given,) = [one["data"] for one in made if one["kind"] == "ConfigMap"]
    assert given["topology.yaml"] == MADE[KUBERNETES]["topology.yaml"]
    pods = [one for one in made if one["kind"] == "StatefulSet"]
    volumes = [volume for pod in pods for volume in pod["spec"]["template"]["spec"]["volumes"]]
    maps = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    assert maps == {one["metadata"]["name"] for one in made if one["kind"] == "ConfigMap"}


@pytest.mark.parametrize("file", ["topology.yaml", "controlled.yaml", "kubernetes.yaml"])
def test_the_topologies_may_be_used(file):
    assert len(plan(load(DEPLOY / file)).links) == 8


def commands():
    """Every command line of ours in what is made, where it stands."""
    for (target, _), files in MADE.items():
        for name, text in files.items():
            for place, words in found_in(name, text):
                yield f"{target.value}-{name}-{place}", words
    ((_, words),) = found_in(AUDIT.name, AUDIT.read_text())
    yield "audit", words


def found_in(name, text):
    if name.endswith(".service"):
        line = re.search(r"^ExecStart=/usr/bin/env (.*)$", text, re.MULTILINE)
        yield "", shlex.split(line[1])
    elif name.endswith("compose.yaml"):
        for service, told in yaml.safe_load(text)["services"].items():
            yield service, told["command"]
    elif name.startswith("cluster-"):
        for document in yaml.safe_load_all(text):
            if document["kind"] == "StatefulSet":
                (container,) = document["spec"]["template"]["spec"]["containers"]
                yield document["metadata"]["name"], container["args"]


def test_every_kind_of_process_is_made_in_every_way():
    kinds = {"tower", "store", "schemas", "gateway", "run", "replica", "controller"}
    found = {(place.partition("-")[0], words[1]) for place, words in commands()}
    ways = {target.value for target in DeploymentTarget}
    assert found == {(way, kind) for way in ways for kind in kinds} | {("audit", "verify")}


@pytest.mark.parametrize("kind", sorted({words[1] for _, words in commands()}))
def test_every_command_line_has_only_options_that_exist(kind):
    lines = [(place, words) for place, words in commands() if words[1] == kind]
    for place, words in lines:
        app = {"dafka": dafka_app, "distributor": distributor_app}[words[0]]
        command = get_command(app).commands[words[1]]
        if kind in ("gateway", "controller"):  # groups; of a gateway it is meant if none is named
            command = command.commands["run"]
        known = {option for parameter in command.params for option in parameter.opts}
        given = {word for word in words if word.startswith("--")}
        assert given <= known, place
        required = {
            parameter.opts[0]
            for parameter in command.params
            if parameter.required and parameter.param_type_name == "option"
        }
        assert required <= given, place


@pytest.mark.parametrize("target", DeploymentTarget)
def test_controllers_and_replicas_are_who_the_topology_says(target):
    """What starts them says what the file does, on each of its hosts."""
    file = "kubernetes.yaml" if target is DeploymentTarget.KUBERNETES else "controlled.yaml"
    topology = load(DEPLOY / file)
    started = {cluster.name: [] for cluster in topology.clusters}
    for place, words in commands():
        if place.startswith(target.value) and words[1] in ("replica", "controller"):
            told = {key: words[words.index(key) + 1] for key in words if key.startswith("--")}
            cluster = topology.cluster(told["--cluster"])
            if words[1] == "replica":
                found = called_replica(cluster, told["--listen"], None, told["--metrics"])
            else:
                found = called_controller(cluster, told["--metrics"], None)
            started[cluster.name].append(found)
    for cluster in topology.clusters:
        wanted = {*cluster.replicas, *cluster.controllers}
        assert set(started[cluster.name]) >= wanted
