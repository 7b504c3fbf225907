"""Users of a gateway that come, change and go while it runs; with a client of Kafka's."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress

import confluent_kafka
import pytest

from dafka.errors import MisuseError
from dafka.gateway.quotas import PRODUCE, Quotas
from dafka.gateway.wire import Api
from dafka.node.users_file import UsersFile
from dafka.process.clock import now_ms
from tests.support.certificates import write_users
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
RULES = {"read": ["*"], "write": ["*"]}


@contextmanager
def running(file, quotas=None):
    """A gateway that has a users file, and the file."""
    users = UsersFile(file, look_s=0.02)
    with served(users=users.users, quotas=quotas) as gateway:
        gateway.create("orders")
        looking = asyncio.run_coroutine_threadsafe(users.run(gateway.server.use), gateway.loop)
        try:
            yield gateway, users
        finally:
            looking.cancel()
            with suppress(CancelledError):
                looking.result(10)


def log_in(client, name, password):
    client.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    shown = f"\0{name}\0{password}".encode()
    return client.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=shown).error_code


def rewrite(file, *, without=None, added=""):
    """As somebody edits it."""
    head, *entries = file.read_text().split("\n[users.")
    kept = [entry for entry in entries if without is None or not entry.startswith(f'"{without}"')]
    draft = file.with_suffix(".draft")
    draft.write_text("\n[users.".join([head, *kept]) + added)
    draft.chmod(0o600)
    draft.replace(file)


def test_who_is_taken_out_is_disconnected_and_others_are_not(tmp_path):
    file, passwords = write_users(tmp_path, shop=RULES, billing=RULES)
    with running(file) as (gateway, users), gateway.client() as shop, gateway.client() as billing:
        for client, name in ((shop, "shop"), (billing, "billing")):
            assert log_in(client, name, passwords[name]) == 0
        with gateway.client() as began:
            assert began.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
            rewrite(file, without="shop")
            assert shop.is_closed()
            assert began.is_closed(), "it would log in as whom there was"
        with gateway.client() as again:
            assert log_in(again, "shop", passwords["shop"]) != 0
        assert billing.ask(Api.METADATA, 9, topics=[]).topics == []
        assert set(users.users.users) == {"billing"}


def test_a_file_that_cannot_be_used_leaves_what_was_and_says_so(tmp_path, until, caplog):
    file, passwords = write_users(tmp_path, shop=RULES)
    good = file.read_text()
    with running(file) as (gateway, users), gateway.client() as shop:
        assert log_in(shop, "shop", passwords["shop"]) == 0
        rewrite(file, added="\nnonsense")
        until(lambda: users.problem)
        assert "users are those of before" in users.problem
        until(lambda: "users file is not taken up" in caplog.text)
        with gateway.client() as another:
            assert log_in(another, "shop", passwords["shop"]) == 0
        assert shop.ask(Api.METADATA, 9, topics=[]).topics == []
        file.unlink()
        until(lambda: "cannot read" in users.problem)
        file.write_text(good)
        file.chmod(0o600)
        until(lambda: not users.problem)


def test_a_file_that_cannot_be_used_at_the_beginning_is_refused(tmp_path):
    with pytest.raises(MisuseError, match="cannot read"):
        UsersFile(tmp_path / "kafka.toml")


def test_a_client_of_kafkas_is_held_to_a_quota_from_when_it_is_written(tmp_path, until):
    file, passwords = write_users(tmp_path, shop=RULES)
    told = []
    with running(file, Quotas(now_ms, lambda *what: told.append(what))) as (gateway, users):
        errors, delivered = [], []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": gateway.endpoint,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "shop",
                "sasl.password": passwords["shop"],
                "error_cb": lambda error: errors.append(error.code()),
            }
        )

        def produce():
            for _ in range(20):
                producer.produce(
                    "orders", bytes(1_000), on_delivery=lambda error, _: delivered.append(error)
                )
            assert producer.flush(WAIT_S) == 0
            return bool(told)

        assert not produce()
        rewrite(file, added="producer_byte_rate = 10000\n")
        until(lambda: users.users.users["shop"].producer_byte_rate == 10_000)
        until(produce)
        assert delivered == [None] * len(delivered)
        assert {(name, quota) for name, quota, _ in told} == {("shop", PRODUCE)}
        rewrite(file, without="shop", added='\n[users."other"]\nread = ["*"]\n')
        refused = confluent_kafka.KafkaError._AUTHENTICATION
        until(lambda: producer.poll(0.1) is not None and refused in errors)
