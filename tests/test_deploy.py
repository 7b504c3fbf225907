"""What is in deploy/ is what its own tools take, and the runbook knows every alert."""

from __future__ import annotations

import json
import re
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
from distributor.cli.called import called_controller, called_replica, called_replicas
from distributor.cli.main import app as distributor_app
from topology import load, plan

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(
    path
    for path in DEPLOY.glob("kubernetes*/*.yaml")
    if path.name not in ("kustomization.yaml", "topology.yaml")
)
CONTROLLED = DEPLOY / "kubernetes-controlled"
UNITS = sorted((DEPLOY / "systemd").iterdir())
KUBERNETES = "1.31"
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
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/operations.md#{alert.lower()}"


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


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(unit):
    assert run("systemd-analyze", "verify", str(unit)) == ""


def test_the_dockerfile_has_no_fault():
    run("hadolint", str(DEPLOY / "Dockerfile"))


def test_docker_compose_takes_the_file():
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
    compose = ["docker", "compose"]
    found = shutil.which("docker") and subprocess.run(
        [*compose, "version"], capture_output=True, timeout=60, check=False, env=environment
    )
    if not found or found.returncode:
        compose = ["docker-compose"]
    words = ("--env-file", "example.env", "--file", "compose.yaml", "config")
    told = run(*compose, *words, cwd=DEPLOY, env=environment)
    assert "tcp://dafka-1.example:5556" in told


def test_one_of_two_profiles_is_chosen_for_what_copies():
    """Of a controlled cluster distributors are refused; without replicas nothing else copies."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    profiles = {name: service.get("profiles") for name, service in services.items()}
    always = dict.fromkeys(("tower", "store", "registry", "gateway"))
    levels = {key: ["levels"] for key in ("schemas", "level-1", "level-3")}
    controlled = {key: ["controlled"] for key in ("replica", "controller")}
    assert profiles == always | levels | controlled
    assert "\nCOMPOSE_PROFILES=levels\n" in (DEPLOY / "example.env").read_text()


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_takes_the_manifests(manifest):
    documents = list(yaml.safe_load_all(manifest.read_text()))
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize(("folder", "others"), [("", []), ("-controlled", ["../kubernetes"])])
def test_kustomize_finds_everything_it_names(folder, others):
    place = DEPLOY / f"kubernetes{folder}"
    kustomization = yaml.safe_load((place / "kustomization.yaml").read_text())
    mine = [path.name for path in MANIFESTS if path.parent == place]
    assert sorted(kustomization["resources"]) == sorted([*mine, *others])
    for generator in kustomization["configMapGenerator"]:
        assert all((place / file).exists() for file in generator["files"])


def test_with_controllers_kubernetes_runs_what_the_topology_says_and_no_distributor():
    made = [*yaml.safe_load_all(run("kubectl", "kustomize", str(CONTROLLED)))]
    for document in made:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    pods = {one["metadata"]["name"]: one for one in made if one["kind"] == "StatefulSet"}
    started = {
        name: [one["name"] for one in pod["spec"]["template"]["spec"]["containers"]]
        for name, pod in pods.items()
    }
    replicas = {f"replica-{letter}": ["replica"] for letter in "abc"}
    controllers = {f"controller-{letter}": ["controller"] for letter in "ab"}
    clusters = {"cluster": ["tower", "store", "gateway"]}
    assert started == clusters | replicas | controllers
    (given,) = [one["data"] for one in made if one["kind"] == "ConfigMap"]
    assert given["topology.yaml"] == (CONTROLLED / "topology.yaml").read_text()


@pytest.mark.parametrize("number", range(4))
def test_a_pod_of_kubernetes_is_what_the_topology_says(number):
    cluster = load(CONTROLLED / "topology.yaml").cluster(f"cluster-{number}")
    replicas, controllers = [], []
    for document in yaml.safe_load_all((CONTROLLED / "links.yaml").read_text()):
        if document["kind"] != "StatefulSet":
            continue
        name = f"{document['metadata']['name']}-{number}"
        pod = document["spec"]["template"]["spec"]
        assert pod["subdomain"] == document["spec"]["serviceName"] == "links"
        (container,) = pod["containers"]
        words = [
            word.replace("$(POD)", name).replace("$(NUMBER)", str(number))
            for word in container["args"]
        ]
        told = dict(word.split("=", 1) for word in words if "=" in word)
        assert told["--cluster"] == cluster.name
        ports = {port["containerPort"] for port in container["ports"]}
        if "replica" in words:
            found = called_replica(cluster, told["--listen"], None, None)
            replicas.append(found)
        else:
            found = called_controller(cluster, told["--metrics"], None)
            controllers.append(found)
        assert ports == {int(one.rpartition(":")[2]) for one in (found.listen, found.metrics)}
        (probed,) = {
            container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")
        }
        (metrics,) = [port for port in container["ports"] if port["name"] == probed]
        assert found.metrics == f"{name}.links:{metrics['containerPort']}"
    assert tuple(replicas) == cluster.replicas
    assert tuple(controllers) == cluster.controllers


@pytest.mark.parametrize(
    "file",
    [
        *("topology.yaml", "controlled.yaml"),
        *("kubernetes/topology.yaml", "kubernetes-controlled/topology.yaml"),
    ],
)
def test_the_topologies_may_be_used(file):
    assert len(plan(load(DEPLOY / file)).links) == 8


def commands():
    """Every command line of ours in deploy/, where it stands."""
    for unit in UNITS:
        line = re.search(r"^ExecStart=/usr/bin/env (.*)$", unit.read_text(), re.MULTILINE)[1]
        yield pytest.param(line.split(), id=unit.name)
    for name, service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].items():
        yield pytest.param(service["command"], id=f"compose-{name}")
    files = (DEPLOY / "kubernetes/clusters.yaml", CONTROLLED / "links.yaml")
    for document in (one for file in files for one in yaml.safe_load_all(file.read_text())):
        if document["kind"] == "StatefulSet":
            for container in document["spec"]["template"]["spec"]["containers"]:
                yield pytest.param(container["args"], id=f"kubernetes-{container['name']}")


@pytest.mark.parametrize("words", list(commands()))
def test_every_command_line_has_only_options_that_exist(words):
    app = {"dafka": dafka_app, "distributor": distributor_app}[words[0]]
    command = get_command(app).commands[words[1]]
    if words[1] in ("gateway", "controller"):  # groups; of a gateway it is meant if none is named
        command = command.commands["run"]
    known = {option for parameter in command.params for option in parameter.opts}
    given = {word.split("=")[0] for word in words if word.startswith("--")}
    assert given <= known
    required = {
        parameter.opts[0]
        for parameter in command.params
        if parameter.required and parameter.param_type_name == "option"
    }
    assert required <= given


def test_kafka_clients_are_told_an_address_that_the_service_has():
    service, _, pods = yaml.safe_load_all((DEPLOY / "kubernetes/clusters.yaml").read_text())
    (gateway,) = (
        one for one in pods["spec"]["template"]["spec"]["containers"] if one["name"] == "gateway"
    )
    given = dict(word.split("=", 1) for word in gateway["args"] if "=" in word)
    told = given["--advertised-listener"]
    assert told == f"$(POD).{service['metadata']['name']}:9092"
    assert {"name": "kafka", "port": 9092} in service["spec"]["ports"]
    assert {"name": "kafka", "containerPort": 9092} in gateway["ports"]


def test_every_process_of_a_pod_is_probed_where_it_serves_its_metrics():
    *_, pods = yaml.safe_load_all((DEPLOY / "kubernetes/clusters.yaml").read_text())
    for one in pods["spec"]["template"]["spec"]["containers"]:
        (metrics,) = (word.split(":")[1] for word in one["args"] if word.startswith("--metrics="))
        ports = {port["name"]: str(port["containerPort"]) for port in one["ports"]}
        for probe, path in (("livenessProbe", "/health"), ("readinessProbe", "/ready")):
            asked = one[probe]["httpGet"]
            assert (asked["path"], ports[asked["port"]]) == (path, metrics), one["name"]


@pytest.mark.parametrize("level", [1, 3])
def test_every_level_of_the_topology_has_its_process(level):
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert f"level-{level}" in services
    links = plan(load(DEPLOY / "topology.yaml")).links
    assert {link.level for link in links} == {1, 3}


def test_the_registries_of_the_topology_have_their_processes():
    wanted = {("dafka", "schemas"), ("distributor", "schemas")}
    assert all(cluster.registry for cluster in load(DEPLOY / "topology.yaml").clusters)
    ways = {"service": set(), "compose": set(), "kubernetes": set()}
    for parameter in commands():
        (words,) = parameter.values
        ways[re.search("service|compose|kubernetes", parameter.id)[0]].add((words[0], words[1]))
    assert wanted <= ways["service"]
    assert wanted <= ways["compose"]
    # Those of Kubernetes have no registry, and so need no process.
    assert not any(one.registry for one in load(DEPLOY / "kubernetes/topology.yaml").clusters)
    assert not wanted & ways["kubernetes"]
    table = (DEPLOY / "README.md").read_text()
    assert all(f"| `{' '.join(words)} --" in table for words in wanted)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_controllers_and_replicas_are_started_where_the_topology_has_them(number):
    """Units and services say what the file does, on each of its hosts."""
    cluster = load(DEPLOY / "controlled.yaml").cluster(f"cluster-{number}")
    host = f"dafka-{number}b.example"
    started = [
        " ".join(words.values[0]).replace("${DAFKA_HOST:?}", "${DAFKA_HOST}")
        for words in commands()
        if words.values[0][1] in ("replica", "controller") and "kubernetes" not in words.id
    ]
    assert len(started) == 4, "units and services"
    for text in started:
        told = text.replace("${DAFKA_HOST}", host).split()
        if told[1] == "replica":
            listen = told[told.index("--listen") + 1]
            assert called_replica(cluster, listen, None, None).metrics == f"{host}:9301"
        else:
            metrics = told[told.index("--metrics") + 1]
            found = called_controller(cluster, metrics, None)
            assert (found.metrics, found.listen) == (f"{host}:9303", f"{host}:7501")
            assert len(called_replicas(cluster, {})) == 3
