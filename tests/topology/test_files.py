from __future__ import annotations

import pytest

from topology import load
from topology.files import file_problems

FILE = """
version: 1
name: keyed
web: {access: web.toml, token: me.token}
clusters:
  - name: a
    id: 1
    towers: ["tcp://127.0.0.1:1"]
    stores: [{query: "tcp://127.0.0.1:3", data: a}]
    security: {access: keys/access.toml, cluster_key: keys/cluster.secret, key: keys/me.secret}
    gateways: [{listen: "127.0.0.1:9092", users: keys/kafka.toml}]
tree: a
"""
NAMED = {
    "web.toml": "$.web.access",
    "me.token": "$.web.token",
    "keys/access.toml": "$.clusters[0].security.access",
    "keys/cluster.secret": "$.clusters[0].security.cluster_key",
    "keys/me.secret": "$.clusters[0].security.key",
    "keys/kafka.toml": "$.clusters[0].gateways[0].users",
}
PUBLIC = {"web.toml", "keys/access.toml"}


@pytest.fixture
def file(tmp_path):
    """A topology file, with all that it names beside it."""
    (tmp_path / "keys").mkdir()
    for name in NAMED:
        (tmp_path / name).write_text("content")
        (tmp_path / name).chmod(0o644 if name in PUBLIC else 0o600)
    file = tmp_path / "keyed.yaml"
    file.write_text(FILE)
    return file


def problems(file):
    return {problem.path: problem for problem in file_problems(load(file), file.parent)}


def test_what_can_be_read_and_by_nobody_else_is_all_right(file):
    (file.parent / "keys/me.secret").chmod(0o640)  # as Kubernetes gives it to a group
    assert problems(file) == {}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_not_there_is_named_with_its_place(file, name):
    (file.parent / name).unlink()
    (found,) = problems(file).values()
    assert found.path == NAMED[name]
    assert found.message == f"cannot read '{file.parent / name}': No such file or directory"
    assert "dafka keys" in found.hint


@pytest.mark.parametrize("name", sorted(NAMED.keys() - PUBLIC))
@pytest.mark.parametrize("mode", [0o604, 0o660])
def test_a_secret_that_others_may_use_is_named(file, name, mode):
    (file.parent / name).chmod(mode)
    (found,) = problems(file).values()
    assert (found.path, found.hint) == (NAMED[name], f"chmod 600 {file.parent / name}")
    assert f"(mode {mode:o})" in found.message


def test_a_directory_is_no_file(file):
    (file.parent / "web.toml").unlink()
    (file.parent / "web.toml").mkdir()
    assert "Is a directory" in problems(file)["$.web.access"].message


def test_a_topology_without_keys_names_none(tmp_path):
    file = tmp_path / "open.yaml"
    lines = [line for line in FILE.splitlines() if "security" not in line and "web" not in line]
    file.write_text("\n".join(line for line in lines if "gateways" not in line))
    assert problems(file) == {}
