from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.process.files import write_secret
from dafka.transport.keys import new_keys
from distributor import loading

FILE = """
version: 1
name: two
clusters:
  - name: c1
    id: 1
    towers: [tcp://127.0.0.1:5001]
    stores: [{query: "tcp://127.0.0.1:5003", data: d1}]
    security: {access: keys/access.toml, cluster_key: keys/cluster.secret, key: keys/me.secret}
  - name: c2
    id: 2
    host: c2.example
    towers: [tcp://c2.example:5001]
    stores: [{query: "tcp://c2.example:5003", data: d2}]
    insecure: true
    wire: libdafka
tree: {level: 1, children: [c1, c2]}
"""


def test_the_dialect_of_every_cluster_is_known(tmp_path):
    without_keys = "".join(line for line in FILE.splitlines(True) if "security" not in line)
    (tmp_path / "topology.yaml").write_text(without_keys)
    one, two = map(Cluster.declared, loading.load(tmp_path / "topology.yaml").clusters)
    assert (one.wire, one.insecure, one.host) == ("rfc46", False, "127.0.0.1")
    assert (two.wire, two.insecure, two.host) == ("libdafka", True, "c2.example")


def test_the_keys_of_every_cluster_are_its_own(tmp_path):
    (cluster, _), (public, secret) = new_keys(), new_keys()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/access.toml").write_text(
        f"cluster = '{cluster}'\n[keys.me]\npublic = '{public}'\n"
    )
    write_secret(tmp_path / "keys/me.secret", secret)
    (tmp_path / "topology.yaml").write_text(FILE)
    declared = loading.load(tmp_path / "topology.yaml")
    assert declared.name == "two"
    one, two = map(Cluster.declared, declared.clusters)
    assert one.credentials.public == public
    assert two.credentials is None


def test_a_key_that_is_missing_is_said_by_name(tmp_path):
    (tmp_path / "topology.yaml").write_text(FILE)
    with pytest.raises(MisuseError, match=r"access\.toml"):
        loading.load(tmp_path / "topology.yaml")
