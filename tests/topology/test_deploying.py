from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from topology.deploying import MARK, DeploymentTarget, deployment_files, write_deployment
from topology.deployment import DeploymentError
from topology.kubernetes import KubernetesSettings
from topology.loading import load

DEPLOY = Path(__file__).parents[2] / "deploy"
SETTINGS = KubernetesSettings(image="ours:1")
FILES = {
    DeploymentTarget.KUBERNETES: DEPLOY / "kubernetes.yaml",
    DeploymentTarget.COMPOSE: DEPLOY / "topology.yaml",
    DeploymentTarget.SYSTEMD: DEPLOY / "topology.yaml",
}


def files_of(target):
    return deployment_files(target, FILES[target], SETTINGS)


@pytest.mark.parametrize("target", DeploymentTarget)
def test_the_topology_comes_along_as_it_is(target, tmp_path):
    found = files_of(target)
    declared = {text for name, text in found.items() if name.endswith("topology.yaml")}
    assert declared == {MARK + FILES[target].read_text()}
    write_deployment(found, tmp_path)
    for path in tmp_path.rglob("topology.yaml"):
        assert load(path) == load(FILES[target])


def test_yaml_is_read_back_without_anchors():
    for name, text in files_of(DeploymentTarget.KUBERNETES).items():
        assert text.startswith(MARK)
        assert list(yaml.safe_load_all(text)), name
        assert "&id" not in text


def test_with_keys_it_says_how_their_secret_is_made(tmp_path):
    file = tmp_path / "topology.yaml"
    keys = "{access: keys/access.toml, cluster_key: keys/c.secret, key: keys/l.secret}"
    text = FILES[DeploymentTarget.KUBERNETES].read_text()
    text = text.replace("insecure: true\n", f"security: {keys}\n")
    file.write_text(text.replace(':9092"}', ':9092", users: keys/kafka.toml}'))
    found = deployment_files(DeploymentTarget.KUBERNETES, file, SETTINGS)
    told = "# kubectl create secret generic dafka-keys --namespace=dafka --from-file=keys\n"
    assert told + "# kubectl apply -k .\n" in found["kustomization.yaml"]
    assert not any("secret generic" in text for name, text in found.items() if "cluster" in name)


def test_what_has_changed_is_told_and_what_is_gone_goes(tmp_path):
    assert write_deployment({"a": MARK + "1", "b/c": MARK + "2"}, tmp_path) == ["a", "b/c"]
    assert write_deployment({"a": MARK + "1", "b/c": MARK + "2"}, tmp_path) == []
    (tmp_path / "mine").write_text("kept")
    assert write_deployment({"a": MARK + "3"}, tmp_path) == ["a", "b/c"]
    assert sorted(one.name for one in tmp_path.rglob("*") if one.is_file()) == ["a", "mine"]


def test_files_of_others_are_not_overwritten(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(DeploymentError, match="was not made by topology deploy"):
        write_deployment({"a": MARK + "1"}, tmp_path)
    with pytest.raises(DeploymentError, match="cannot write to"):
        write_deployment({"a": MARK + "1"}, tmp_path / "a")


def test_what_others_have_there_is_not_read_whole(tmp_path):
    with (tmp_path / "disk.img").open("wb") as large:
        large.truncate(1 << 40)
    assert write_deployment({"one.yaml": f"{MARK}a: 1\n"}, tmp_path) == ["one.yaml"]
    assert (tmp_path / "disk.img").stat().st_size == 1 << 40
