from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dafka.gateway.scram import MECHANISMS, proves
from dafka.gateway.users import load_users
from dafka.process.web_access import load_web_access
from dafka.transport.access import ANYBODY, Rights
from dafka.transport.keys import load_credentials

pytestmark = pytest.mark.slow


def test_a_cluster_and_those_who_may_use_it(dafka, tmp_path):
    where = tmp_path / "keys"
    assert dafka("keys", "cluster", "--dir", str(where)).returncode == 0
    rules = ["--read", "orders*", "--read", "a.\u00e9*", "--write", "*", "--mirror", "e*"]
    made = dafka("keys", "shop.1", "--dir", str(where), *rules)
    assert made.returncode == 0, made.stderr
    assert b"keep it secret" in made.stdout
    assert dafka("keys", "idle", "--dir", str(where)).returncode == 0
    access = where / "access.toml"
    assert load_credentials(access, where / "cluster.secret").rights == ANYBODY
    shop = load_credentials(access, where / "shop.1.secret")
    assert shop.rights == Rights(("orders", "a.\u00e9"), ("",), ("e",))
    assert load_credentials(access, where / "idle.secret").rights == Rights()
    dafka("keys", "member", "--dir", str(where), "--groups", "shop-*", "--groups", "till*")
    member = load_credentials(access, where / "member.secret").rights
    assert member == Rights(groups=("shop-", "till"))
    assert member.may_commit("shop-1")
    assert not member.may_commit("billing")
    assert shop.rights.may_commit("billing"), "who has no rule may commit for all"
    assert (where.stat().st_mode & 0o777) == 0o700


def test_a_token_for_what_speaks_http(dafka, refused, tmp_path):
    where = ["--dir", str(tmp_path)]
    made = dafka("keys", "prometheus", *where, "--web", "metrics")
    assert made.returncode == 0, made.stderr
    assert b"give it to every process with --web" in made.stdout
    rights = ["--web", "dashboard", "--web", "register"]
    assert dafka("keys", "ops", *where, *rights).returncode == 0
    access = load_web_access(tmp_path / "web.toml")
    token = (tmp_path / "prometheus.token").read_text().strip()
    assert access.refusal(f"Bearer {token}", "metrics") is None
    assert access.refusal(f"Bearer {token}", "register").status == 403
    assert {one.name: one.may for one in access.holders.values()} == {
        "prometheus": {"metrics"},
        "ops": {"dashboard", "register"},
    }
    assert (tmp_path / "ops.token").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "web.toml").read_text()
    assert "right 'all' is not known: metrics" in refused(2, "keys", "x", *where, "--web", "all")
    both = ("--web", "metrics", "--read", "*")
    assert "a token is for HTTP alone" in refused(2, "keys", "x", *where, *both)
    (tmp_path / "ops.token").rename(tmp_path / "elsewhere")
    again = ("keys", "ops", *where, *rights)
    assert "take it out there first" in refused(2, *again)
    assert (tmp_path / "web.toml").read_text() == before


def test_a_password_for_kafka_clients(dafka, refused, tmp_path):
    where = ["--dir", str(tmp_path)]
    rules = ["--read", "orders*", "--write", "orders-eu*", "--groups", "shop*"]
    made = dafka("keys", "shop", *where, "--kafka", *rules)
    assert made.returncode == 0, made.stderr
    assert b"give it to every gateway with --users" in made.stdout
    assert dafka("keys", "ops", *where, "--kafka", "--read", "*").returncode == 0
    known = load_users(tmp_path / "kafka.toml")
    assert known.users["shop"].rights == Rights(("orders",), ("orders-eu",), groups=("shop",))
    assert known.users["ops"].rights == Rights(read=("",), groups=())
    password = (tmp_path / "shop.password").read_text().strip()
    for mechanism in MECHANISMS:
        assert proves(known.verifier("shop", mechanism), mechanism, password)
    assert password not in (tmp_path / "kafka.toml").read_text()
    for name in ("shop.password", "kafka.toml"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    for words, says in (
        (("--mirror", "*"), "--mirror is for keys of distributors"),
        (("--read", "orders"), "rule 'orders'"),
        (("--web", "metrics"), "make one of them"),
    ):
        assert says in refused(2, "keys", "x", *where, "--kafka", *words)
    (tmp_path / "shop.password").unlink()
    assert "take it out there first" in refused(2, "keys", "shop", *where, "--kafka")


def test_quotas_of_a_kafka_user_are_set_shown_and_taken_away(dafka, refused, tmp_path):
    where = ["--dir", str(tmp_path)]
    for name in ("shop", "ops"):
        assert dafka("keys", name, *where, "--kafka", "--read", "*").returncode == 0
    file = tmp_path / "kafka.toml"
    before = file.read_text()
    rates = ("--producer-byte-rate", "1000000", "--consumer-byte-rate", "5")
    assert dafka("keys", "shop", *where, *rates).returncode == 0
    assert dafka("keys", "shop", *where, "--producer-byte-rate", "2000").returncode == 0
    users = load_users(file).users
    assert (users["shop"].producer_byte_rate, users["shop"].consumer_byte_rate) == (2_000, 5)
    assert (users["ops"].producer_byte_rate, users["ops"].consumer_byte_rate) == (None, None)
    shown = dafka("keys", "shop", *where, "--quotas").stdout.decode()
    assert shown == (
        "producer_byte_rate: 2,000 bytes a second\nconsumer_byte_rate: 5 bytes a second\n"
    )
    assert file.stat().st_mode & 0o777 == 0o600
    none = ("--producer-byte-rate", "0", "--consumer-byte-rate", "0")
    assert b"producer_byte_rate: none" in dafka("keys", "shop", *where, *none).stdout
    assert file.read_text() == before
    for words, says in (
        (("who", "--quotas"), "no user 'who'"),
        (("shop", "--kafka", "--producer-byte-rate", "1"), "make it first"),
    ):
        assert says in refused(2, "keys", *words, *where)
    assert file.read_text() == before


def test_mistakes_change_nothing(refused, dafka, tmp_path):
    where = ["--dir", str(tmp_path)]
    assert "access.toml" in refused(2, "keys", "shop", *where)
    dafka("keys", "cluster", *where)
    before = (tmp_path / "access.toml").read_text()
    assert "File exists" in refused(2, "keys", "cluster", *where)
    assert "rule 'orders'" in refused(2, "keys", "shop", *where, "--read", "orders")
    assert "takes no rules" in refused(2, "keys", "cluster", *where, "--read", "*")
    dafka("keys", "till", *where)
    (tmp_path / "till.secret").unlink()
    assert "'till' is in" in refused(2, "keys", "till", *where)
    (tmp_path / "access.toml").write_text(before)
    assert "'../shop'" in refused(2, "keys", "../shop", *where)
    assert (tmp_path / "access.toml").read_text() == before
    assert {path.name for path in tmp_path.iterdir()} == {"access.toml", "cluster.secret"}


def test_key_and_access_belong_together(refused, tmp_path):
    words = ("topics", "--key", str(tmp_path / "me.secret"))
    assert "--access and --key belong together" in refused(2, *words)


def test_a_server_without_keys_stays_on_this_machine(refused):
    assert "`dafka keys`" in refused(2, "tower", "--endpoint", "tcp://0.0.0.0:5556")


def test_keys_that_are_made_at_once_are_all_there(dafka, tmp_path):
    words = ("--dir", str(tmp_path), "--kafka", "--read", "*")
    names = [f"user-{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda name: dafka("keys", name, *words), names))
    assert [one.returncode for one in made] == [0] * 4, [one.stderr for one in made]
    assert set(load_users(tmp_path / "kafka.toml").users) == set(names)
