from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.transport.curve import Keyring
from dafka.transport.keys import new_keys, write_secret
from dafka.transport.wiring import Wiring, Wirings
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


@pytest.fixture
def spoken(monkeypatch):
    spoken = Wirings()
    monkeypatch.setattr(loading, "wirings", spoken)
    return spoken


def test_the_dialect_of_every_cluster_is_taken_up(tmp_path, ring, spoken):
    without_keys = "".join(line for line in FILE.splitlines(True) if "security" not in line)
    (tmp_path / "topology.yaml").write_text(without_keys)
    loading.load(tmp_path / "topology.yaml")
    assert spoken.of("tcp://127.0.0.1:5001").wire == "rfc46"
    assert spoken.of("tcp://c2.example:5001") == Wiring("libdafka")


@pytest.fixture
def ring(monkeypatch):
    ring = Keyring()
    monkeypatch.setattr(loading, "keyring", ring)
    return ring


def test_the_keys_of_every_cluster_are_taken_up_where_they_are_used(tmp_path, ring):
    (cluster, _), (public, secret) = new_keys(), new_keys()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/access.toml").write_text(
        f"cluster = '{cluster}'\n[keys.me]\npublic = '{public}'\n"
    )
    write_secret(tmp_path / "keys/me.secret", secret)
    (tmp_path / "topology.yaml").write_text(FILE)
    assert loading.load(tmp_path / "topology.yaml").name == "two"
    for endpoint in ("tcp://127.0.0.1:5001", "tcp://127.0.0.1:5003"):
        assert ring.of(endpoint).public == public
        assert not ring.insecure(endpoint)
    for endpoint in ("tcp://c2.example:5001", "tcp://c2.example:5003"):
        assert ring.of(endpoint) is None
        assert ring.insecure(endpoint)


def test_a_key_that_is_missing_is_said_by_name(tmp_path, ring):
    (tmp_path / "topology.yaml").write_text(FILE)
    with pytest.raises(MisuseError, match=r"access\.toml"):
        loading.load(tmp_path / "topology.yaml")
