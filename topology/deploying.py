"""Writes what runs a topology elsewhere into a directory: manifests, compose files or units."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from topology.compose import compose_files
from topology.deployment import FILE_NAME, DeploymentError
from topology.kubernetes import KubernetesSettings, manifests, secret_directories, secret_name
from topology.loading import dumped, load
from topology.systemd import units

if TYPE_CHECKING:
    from pathlib import Path

    from topology.model import Topology

MARK = "# Made by topology deploy: change the topology instead, and make it again.\n"
"""The first line of each file; one that does not have it is not ours."""


class DeploymentTarget(Enum):
    """What runs the processes."""

    KUBERNETES = "kubernetes"
    COMPOSE = "compose"
    SYSTEMD = "systemd"


def deployment_files(
    target: DeploymentTarget, file: Path, settings: KubernetesSettings
) -> dict[str, str]:
    """Return the text of each file, by its path.

    Args:
        target: What is to run them.
        file: The topology.
        settings: What it does not say.

    Raises:
        TopologyError: The topology cannot be used, or cannot be run so.
    """
    topology = load(file)
    declared = file.read_text(encoding="utf-8").removeprefix(MARK)
    if target is DeploymentTarget.KUBERNETES:
        found = {name: dumped(all_) for name, all_ in manifests(topology, settings).items()}
        found["kustomization.yaml"] = _to_do(topology, settings) + found["kustomization.yaml"]
        found[FILE_NAME] = declared
        return _marked(found)
    if target is DeploymentTarget.COMPOSE:
        made = compose_files(topology, settings.image)
        hosts = {host: {"compose.yaml": dumped([one])} for host, one in made.items()}
    else:
        hosts = units(topology)
    texts = {host: {**ours, FILE_NAME: declared} for host, ours in hosts.items()}
    return _marked(
        {f"{host}/{name}": text for host, ours in texts.items() for name, text in ours.items()}
    )


def _marked(texts: dict[str, str]) -> dict[str, str]:
    return {name: MARK + text for name, text in texts.items()}


def _to_do(topology: Topology, settings: KubernetesSettings) -> str:
    """What is to be done before and after, at the head of the file that is applied."""
    lines = [
        f"kubectl create secret generic {secret_name(directory)} --namespace={settings.namespace} "
        f"--from-file={directory}"
        for directory in secret_directories(topology)
    ]
    return "".join(f"# {line}\n" for line in [*lines, "kubectl apply -k ."])


def write_deployment(files: dict[str, str], directory: Path) -> list[str]:
    """Write files; those of an earlier call that are not among them go.

    Returns:
        The paths of those that are new, changed or gone.

    Raises:
        DeploymentError: A file in the way is not ours, or the directory cannot be written to.
    """
    try:
        return _written(files, directory)
    except OSError as error:
        raise DeploymentError(f"cannot write to {str(directory)!r}: {error}") from error


def _written(files: dict[str, str], directory: Path) -> list[str]:
    there = {
        path.relative_to(directory).as_posix(): path
        for path in (sorted(directory.rglob("*")) if directory.is_dir() else ())
        if path.is_file()
    }
    for name in files:
        if name in there and not _is_ours(there[name]):
            raise DeploymentError(
                f"{str(directory / name)!r} was not made by topology deploy: name another directory"
            )
    gone = [name for name, path in there.items() if name not in files and _is_ours(path)]
    changed = [
        name
        for name, text in files.items()
        if name not in there or there[name].read_text(encoding="utf-8", errors="replace") != text
    ]
    for name in gone:
        there[name].unlink()
    for name in changed:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name], encoding="utf-8")
    return sorted([*gone, *changed])


def _is_ours(path: Path) -> bool:
    """Whether a file was made here; of what others have in the directory no more is read."""
    with path.open("rb") as begun:
        return begun.read(len(MARK)) == MARK.encode()
