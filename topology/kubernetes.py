"""Manifests of a topology for Kubernetes: a StatefulSet for each process, and what lies around.

A process is found by its name, which is that of a Service without an address of its own. What is
bound to a pod's own ports is told by the pod's address.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from topology.deployment import (
    CONFIG,
    FILE_NAME,
    READERS,
    DeploymentError,
    PlacedProcess,
    placed,
)
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.deployment import Spec
    from topology.model import Topology

METRICS_PORT = 9200
"""Of every process, but of those for which the file has another."""

USER = 10_001
"""Of the image."""

SECRET_MODE = 0o440
"""For the pod's user by its group, `fsGroup`: keys that others may read are refused."""

_POD_ADDRESS = "$(POD_IP)"

_REQUESTED = {ProcessKind.TOWER: "64Mi", ProcessKind.GATEWAY: "128Mi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """What the topology does not say.

    Attributes:
        image: Of every container.
        namespace: Where all of it is.
        storage: What a store asks for.
    """

    image: str
    namespace: str = "dafka"
    storage: str = "50Gi"


def manifests(topology: Topology, settings: KubernetesSettings) -> dict[str, list[Spec]]:
    """Return the documents of each file, by its name.

    Raises:
        DeploymentError: A process has another host than a Service of its own name.
    """
    found = placed(topology, _metrics_at)
    for one in found:
        _check_host(one, settings.namespace)
    files: dict[str, list[Spec]] = {
        f"{cluster}.yaml": [
            _disruptions(cluster),
            *(
                document
                for one in ours
                for document in (_service(one), _pods(one, topology, settings))
            ),
        ]
        for cluster, ours in _by_cluster(found)
    }
    files["namespace.yaml"] = [_namespace(settings.namespace)]
    files["network.yaml"] = [_network({one.metrics for one in found})]
    resources = sorted(files)
    files["kustomization.yaml"] = [_kustomization(settings.namespace, resources)]
    files["podmonitor.yaml"] = [_pod_monitor(settings.namespace)]
    return files


def _metrics_at(_kind: ProcessKind, _name: str, _cluster: str, _index: int) -> str:
    return f"0.0.0.0:{METRICS_PORT}"


def _by_cluster(found: list[PlacedProcess]) -> list[tuple[str, list[PlacedProcess]]]:
    order = list(dict.fromkeys(one.cluster for one in found))
    ordered = sorted(found, key=lambda one: order.index(one.cluster))
    return [(name, list(ours)) for name, ours in groupby(ordered, lambda one: one.cluster)]


def _check_host(one: PlacedProcess, namespace: str) -> None:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", one.name):
        raise DeploymentError(
            f"{one.name!r} cannot be a name in Kubernetes: name the cluster with lower-case "
            "letters, digits and '-', 40 at most"
        )
    names = (one.name, f"{one.name}.{namespace}")
    if one.kind in (ProcessKind.DISTRIBUTOR, ProcessKind.SCHEMAS):
        return  # nobody looks them up
    if one.host not in names and not one.host.startswith(f"{one.name}.{namespace}.svc"):
        raise DeploymentError(
            f"{one.name} is at {one.host!r}, and in Kubernetes at a Service of its own name: write "
            f"{one.name}.{namespace} as its host"
        )


def _labels(one: PlacedProcess) -> dict[str, str]:
    return {"app": "dafka", "dafka-cluster": one.cluster, "dafka-role": one.kind.value}


def _service(one: PlacedProcess) -> Spec:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": one.name, "labels": _labels(one)},
        "spec": {
            "clusterIP": "None",
            # It looks itself up before it is ready: that is how it becomes so.
            "publishNotReadyAddresses": True,
            "selector": {"dafka-process": one.name},
            "ports": [{"name": "metrics", "port": one.metrics}],
        },
    }


def _pods(one: PlacedProcess, topology: Topology, settings: KubernetesSettings) -> Spec:
    labels = {**_labels(one), "dafka-process": one.name}
    mounts, volumes = _mounts(one, topology)
    container = {
        "name": one.kind.value,
        "image": settings.image,
        "args": [*at_pod(one), "--log-format", "json"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "metrics", "containerPort": one.metrics}],
        "livenessProbe": _probe("/health", 10),
        "readinessProbe": _probe("/ready", 5),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": _REQUESTED.get(one.kind, "256Mi")},
            "limits": {"memory": f"{one.memory}i"},
        },
        "volumeMounts": mounts,
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(one)},
    }
    pod = {
        "terminationGracePeriodSeconds": 15,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [container],
        "volumes": volumes,
    }
    spec = {
        "serviceName": one.name,
        "replicas": 1,
        "selector": {"matchLabels": {"dafka-process": one.name}},
        # Of what it reads: pods for which it stays are left alone.
        "template": {
            "metadata": {"labels": labels, "annotations": {"dafka/config": one.digest}},
            "spec": pod,
        },
    }
    if one.data:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": settings.storage}},
        }
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    metadata = {"name": one.name, "labels": _labels(one)}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def at_pod(one: PlacedProcess) -> list[str]:
    """Its command line, bound at its pod."""
    words = list(one.command)
    if "--advertise" in words:
        place = words.index("--advertise")
        del words[place : place + 2]
    if "--host" in words:
        words[words.index("--host") + 1] = _POD_ADDRESS
    elif one.kind is ProcessKind.DISTRIBUTOR:
        words += ["--host", _POD_ADDRESS]
    return words


def _probe(path: str, period_s: int) -> Spec:
    return {"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": period_s}


def _mounts(one: PlacedProcess, topology: Topology) -> tuple[list[Spec], list[Spec]]:
    """What a container sees, and where that comes from."""
    mounts: list[Spec] = []
    volumes: list[Spec] = []
    if one.data:
        mounts.append({"name": "data", "mountPath": posixpath.dirname(one.data)})
    if one.kind in READERS:
        path = f"{CONFIG}/{FILE_NAME}"
        mounts.append(
            {"name": "topology", "mountPath": path, "subPath": FILE_NAME, "readOnly": True}
        )
        volumes.append({"name": "topology", "configMap": {"name": "topology"}})
    for directory, files in _directories(one.secrets).items():
        secret: Spec = {"secretName": secret_name(directory), "defaultMode": SECRET_MODE}
        if files:
            secret["items"] = [{"key": file, "path": file} for file in files]
        name = secret_name(directory)
        mounts.append({"name": name, "mountPath": f"{CONFIG}/{directory}", "readOnly": True})
        volumes.append({"name": name, "secret": secret})
    if one.kind is ProcessKind.DISTRIBUTOR and topology.control is not None:
        mounted = posixpath.dirname(topology.control.directory)
        mounts.append({"name": "control", "mountPath": mounted})
        sockets = {"medium": "Memory", "sizeLimit": "1Mi"}
        volumes.append({"name": "control", "emptyDir": sockets})
    return mounts, volumes


def secret_name(directory: str) -> str:
    """What the Secret of a directory of key files is called."""
    return "dafka-" + re.sub(r"[^a-z0-9]+", "-", directory.lower()).strip("-")


def secret_directories(topology: Topology) -> list[str]:
    """The directories of key files that a topology names."""
    found = placed(topology, _metrics_at)
    return sorted({name for one in found for name in _directories(one.secrets)})


def _directories(secrets: tuple[str, ...]) -> dict[str, list[str]]:
    """Files by their directory; of one that is needed whole none is named."""
    whole = {path[:-1] for path in secrets if path.endswith("/")}
    found: dict[str, list[str]] = {directory: [] for directory in whole}
    for path in secrets:
        directory, file = posixpath.split(path)
        if directory not in whole:
            found.setdefault(directory, []).append(file)
    return found


def _disruptions(cluster: str) -> Spec:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": cluster},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"app": "dafka", "dafka-cluster": cluster}},
        },
    }


def _namespace(name: str) -> Spec:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _network(metrics: set[int]) -> Spec:
    """Who may connect: pods of the namespace, and who scrapes metrics."""
    monitoring = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "dafka"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "dafka"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {}}]},
                {"from": [monitoring], "ports": [{"port": port} for port in sorted(metrics)]},
            ],
        },
    }


def _kustomization(namespace: str, resources: list[str]) -> Spec:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": resources,
        # Its name stays: who has to read it again is told by `dafka/config`.
        "configMapGenerator": [
            {
                "name": "topology",
                "files": [FILE_NAME],
                "options": {"disableNameSuffixHash": True},
            }
        ],
    }


def _pod_monitor(namespace: str) -> Spec:
    """For the operator of Prometheus, where there is one."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "dafka", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "dafka"}},
            "podTargetLabels": ["dafka-cluster", "dafka-role", "dafka-process"],
            "podMetricsEndpoints": [
                {"port": "metrics", "interval": "15s", "relabelings": list(_jobs())}
            ],
        },
    }


def _jobs() -> Iterator[Spec]:
    """What gives processes the jobs by which alerts know them: `towers`, `registries`."""
    plurals = {"(.+)": "${1}s", "registry": "registries", "schemas": "schemas"}
    for role, job in plurals.items():
        yield {
            "sourceLabels": ["__meta_kubernetes_pod_label_dafka_role"],
            "regex": role,
            "targetLabel": "job",
            "replacement": job,
        }
