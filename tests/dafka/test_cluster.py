from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.cluster import Cluster, cluster_of
from dafka.errors import MisuseError
from dafka.model import Shape
from dafka.process.files import write_secret
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys

TOWER, STORE = "tcp://127.0.0.1:5556", "tcp://127.0.0.1:5558"
FILE = """
version: 1
name: two
clusters:
  - {name: c1, id: 1, towers: ["tcp://127.0.0.1:5001"], security: KEYS,
     stores: [{query: "tcp://127.0.0.1:5003", data: d1}]}
  - {name: c2, id: 2, host: 127.0.0.2, towers: ["tcp://127.0.0.2:5001"], wire: libdafka,
     stores: [{query: "tcp://127.0.0.2:5003", data: d2}]}
tree: {level: 1, children: [c1, c2]}
""".replace("KEYS", "{access: access.toml, cluster_key: cluster.secret, key: me.secret}")


def test_a_tower_is_enough():
    cluster = cluster_of(TOWER)
    assert (cluster.towers, cluster.stores, cluster.host) == ((TOWER,), (), "127.0.0.1")
    assert cluster_of(cluster) is cluster


def test_one_or_several_are_the_same_kind_of_value():
    assert Cluster(TOWER, STORE) == Cluster([TOWER], [STORE])
    assert replace(Cluster(TOWER), stores=STORE).stores == (STORE,)


def test_it_is_a_value():
    cluster = Cluster(TOWER)
    with pytest.raises(AttributeError):
        cluster.host = "elsewhere"
    there = replace(cluster, advertise="here").bound_at("127.0.0.2")
    assert (there.host, there.advertise, there.towers) == ("127.0.0.2", None, (TOWER,))
    assert cluster.bound_at("127.0.0.2", "there").advertise == "there"


def test_a_wire_that_is_not_known_is_refused():
    with pytest.raises(MisuseError, match="wire 'zmtp' is not known"):
        Cluster(TOWER, wire="zmtp")


@pytest.mark.parametrize(
    ("declared", "content", "shape"),
    [
        ({}, None, Shape.BATCHES),
        ({"classic": True}, None, Shape.CLASSIC),
        ({"classic": True}, "batches", Shape.BATCHES),
        ({}, "classic", Shape.CLASSIC),
        ({"wire": "libdafka"}, None, Shape.CLASSIC),
        ({"wire": "libdafka", "classic": False}, None, Shape.MARKED),
        ({"wire": "libdafka"}, "batches", Shape.MARKED),
        ({}, "raw", Shape.RAW),
        ({"wire": "libdafka"}, "raw", Shape.RAW),
    ],
)
def test_how_nodes_publish(declared, content, shape):
    assert Cluster(TOWER, **declared).shape(content) is shape


def test_a_content_that_is_not_known_is_refused():
    with pytest.raises(MisuseError, match="content 'avro' is not known"):
        Cluster(TOWER).shape("avro")


def test_addresses_are_those_of_the_key():
    public, secret = new_keys()
    own = Credentials(Access(new_keys()[0], {public: Rights()}), public, secret)
    first, second = (Cluster(TOWER, credentials=own).new_address() for _ in range(2))
    assert first != second
    assert own.access.of(public) is not None
    assert first[:16] == second[:16]
    assert Cluster(TOWER).new_address()[:16] != first[:16]


@pytest.fixture
def file(tmp_path):
    """A topology file whose first cluster has keys; and the key that is ours."""
    (cluster, _), (public, secret) = new_keys(), new_keys()
    access = f"cluster = '{cluster}'\n[keys.me]\npublic = '{public}'\n"
    (tmp_path / "access.toml").write_text(access)
    write_secret(tmp_path / "me.secret", secret)
    path = tmp_path / "topology.yaml"
    path.write_text(FILE)
    return path, public


def test_a_cluster_of_a_topology_file(file):
    path, public = file
    one, two = Cluster.load(path, "c1"), Cluster.load(path, "c2")
    assert (one.name, one.towers, one.stores) == (
        "c1",
        ("tcp://127.0.0.1:5001",),
        ("tcp://127.0.0.1:5003",),
    )
    assert one.credentials.public == public
    assert (two.host, two.wire, two.credentials) == ("127.0.0.2", "libdafka", None)


def test_a_cluster_that_is_not_in_the_file_is_said_by_name(file):
    with pytest.raises(MisuseError, match=r"no cluster 'c3' in .*; there are c1, c2"):
        Cluster.load(file[0], "c3")


def test_keys_that_have_changed_are_read_anew(file):
    path, public = file
    assert Cluster.load(path, "c1").credentials is Cluster.load(path, "c1").credentials
    access = path.parent / "access.toml"
    access.write_text(access.read_text() + "read = ['orders*']\n")
    assert Cluster.load(path, "c1").credentials.access.of(public).read == ("orders",)
    access.unlink()
    with pytest.raises(MisuseError, match="access"):
        Cluster.load(path, "c1")
