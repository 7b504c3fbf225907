from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import kubernetes_validate
import pytest

from dafka.process.files import is_open_to_others
from tests.topology.test_deployment import with_keys
from topology.deployment import DeploymentError
from topology.kubernetes import USER, KubernetesSettings, manifests, secret_directories, secret_name
from topology.loading import load
from topology.model import Web
from topology.processes import ProcessKind

FOUR = load(Path(__file__).parents[2] / "deploy/kubernetes.yaml")
SETTINGS = KubernetesSettings(image="ours:1")


def sets(files):
    """Every StatefulSet, by its name."""
    return {
        one["metadata"]["name"]: one
        for documents in files.values()
        for one in documents
        if one["kind"] == "StatefulSet"
    }


def pod(files, name):
    return sets(files)[name]["spec"]["template"]["spec"]


def test_each_process_is_a_pod_of_its_own_and_found_by_its_name():
    files = manifests(FOUR, SETTINGS)
    found = sets(files)
    assert len(found) == 4 + 4 + 6 + 2 + 2 + 2 + 3 + 2
    services = {
        one["metadata"]["name"]: one["spec"]["selector"]
        for documents in files.values()
        for one in documents
        if one["kind"] == "Service"
    }
    for name, one in found.items():
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert services[name] == one["spec"]["selector"]["matchLabels"]
        assert services[name].items() <= labels.items()
        assert one["spec"]["replicas"] == 1
    for documents in files.values():
        for one in documents:
            if one["kind"] not in ("Kustomization", "PodMonitor"):
                kubernetes_validate.validate(one, "1.31", strict=True)


def test_nodes_are_bound_at_the_address_of_their_pod():
    files = manifests(FOUR, SETTINGS)
    for name in ("cluster-1-store-1", "cluster-1-level-3", "cluster-1-gateway-1"):
        (container,) = pod(files, name)["containers"]
        words = container["args"]
        assert words[words.index("--host") + 1] == "$(POD_IP)"
        (variable,) = container["env"]
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_probes_ask_where_metrics_are():
    files = manifests(FOUR, SETTINGS)
    for name, port in (("cluster-4-replica-2", 9_301), ("cluster-4-store-1", 9_200)):
        (container,) = pod(files, name)["containers"]
        assert container["ports"] == [{"name": "metrics", "containerPort": port}]
        words = container["args"]
        assert name.startswith("cluster-4-replica") or f"0.0.0.0:{port}" in words
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == "metrics"


def test_the_control_directory_is_made_in_what_is_mounted():
    assert FOUR.control.directory == "/run/dafka/control"
    (container,) = pod(manifests(FOUR, SETTINGS), "cluster-1-level-3")["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts["control"] == "/run/dafka"


def test_only_a_store_has_a_disk():
    files = manifests(FOUR, replace(SETTINGS, storage="7Gi"))
    for name, one in sets(files).items():
        claims = one["spec"].get("volumeClaimTemplates", [])
        assert bool(claims) == ("store" in name)
        for claim in claims:
            assert claim["spec"]["resources"] == {"requests": {"storage": "7Gi"}}
            (mount,) = pod(files, name)["containers"][0]["volumeMounts"]
            assert mount["mountPath"] == "/var/lib/dafka"


def test_keys_come_from_a_secret_of_their_directory_to_who_may_have_them():
    files = manifests(with_keys(FOUR), SETTINGS)
    for name, key in (
        ("cluster-1-store-1", "cluster.secret"),
        ("cluster-1-level-3", "link.secret"),
    ):
        volumes = {one["name"]: one for one in pod(files, name)["volumes"]}
        secret = volumes["dafka-keys"]["secret"]
        assert secret["secretName"] == "dafka-keys"
        mode, root, ours = secret["defaultMode"], 0, USER
        assert not is_open_to_others(mode, root, ours)
        assert pod(files, name)["securityContext"]["fsGroup"] == ours
        assert [one["key"] for one in secret["items"]] == ["access.toml", key]
        mounts = {one["name"]: one for one in pod(files, name)["containers"][0]["volumeMounts"]}
        assert mounts["dafka-keys"]["mountPath"] == "/etc/dafka/keys"
    assert secret_directories(with_keys(FOUR)) == ["keys"]
    assert secret_directories(FOUR) == []
    web = replace(with_keys(FOUR), web=Web(access="web.d/web.toml", token="web.d/me"))
    volumes = {
        one["name"]: one for one in pod(manifests(web, SETTINGS), "cluster-1-store-1")["volumes"]
    }
    assert "items" not in volumes[secret_name("web.d")]["secret"]


def test_edits_touch_only_who_reads_them():
    def templates(topology):
        found = sets(manifests(topology, SETTINGS))
        return {name: one["spec"]["template"] for name, one in found.items()}

    before = templates(FOUR)
    first = replace(FOUR.clusters[0], gateways=())
    after = templates(replace(FOUR, clusters=(first, *FOUR.clusters[1:])))
    assert {name for name in before if after.get(name) != before[name]} == {"cluster-1-gateway-1"}
    after = templates(replace(FOUR, links=replace(FOUR.links, repair_after_ms=99)))
    touched = {name for name in before if after[name] != before[name]}
    assert touched == {
        name for name in before if any(word in name for word in ("level", "replica", "controller"))
    }


def test_a_host_that_is_no_service_of_its_process_is_refused():
    (store,) = FOUR.clusters[0].stores
    moved = replace(store, query="tcp://elsewhere:5558")
    first = replace(FOUR.clusters[0], stores=(moved,))
    told = "cluster-1-store-1 is at 'elsewhere', .* write cluster-1-store-1.dafka as its host"
    with pytest.raises(DeploymentError, match=told):
        manifests(replace(FOUR, clusters=(first, *FOUR.clusters[1:])), SETTINGS)
    with pytest.raises(DeploymentError, match=r"write cluster-1-tower-1\.other as its host"):
        manifests(FOUR, replace(SETTINGS, namespace="other"))


def test_a_cluster_whose_name_kubernetes_does_not_take_is_refused():
    first = replace(FOUR.clusters[0], name="Cluster_1")
    tree = replace(FOUR.tree, children=(*FOUR.tree.children[1:],))
    with pytest.raises(DeploymentError, match="'Cluster_1-tower-1' cannot be a name in Kubernetes"):
        manifests(replace(FOUR, clusters=(first,), tree=tree), SETTINGS)


def test_metrics_are_scraped_at_every_pod():
    files = manifests(FOUR, SETTINGS)
    (monitor,) = files["podmonitor.yaml"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == "metrics"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (network,) = files["network.yaml"]
    ports = {port["port"] for rule in network["spec"]["ingress"] for port in rule.get("ports", ())}
    for one in sets(files).values():
        template = one["spec"]["template"]
        assert wanted <= template["metadata"]["labels"].items()
        (port,) = template["spec"]["containers"][0]["ports"]
        assert port["containerPort"] in ports


def test_alerts_know_the_jobs_that_processes_get():
    (monitor,) = manifests(FOUR, SETTINGS)["podmonitor.yaml"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    jobs = set()
    for kind in ProcessKind:
        for rule in endpoint["relabelings"]:
            match = re.fullmatch(rule["regex"], kind.value)
            if match:
                job = match.expand(rule["replacement"].replace("${1}", r"\1"))
        jobs.add(job)
    down = (Path(__file__).parents[2] / "deploy/alerts.yml").read_text()
    jobs.add("audits")  # which is made by nobody
    assert jobs == set(re.search(r'expr: up\{job=~"(.*?)"\}', down)[1].split("|"))
