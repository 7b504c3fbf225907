"""Commands that look at a gateway: over what it shows, and over what others say at such a port."""

from __future__ import annotations

import pytest

from dafka.process.health import Health, serve_health
from dafka.process.web_access import load_web_access
from tests.support.certificates import write_web
from tests.support.json_outputs import rows_of

pytestmark = [pytest.mark.net, pytest.mark.slow]

PARTITION = {
    "partition": 0,
    "leader": "127.0.0.1:9092",
    "epoch": 3,
    "state": "serving",
    "start": 0,
    "end": 1_234,
}
COMMIT = {"topic": "orders", "partition": 0, "offset": 5, "lag_records": None}
CLIENT = {
    "client": "127.0.0.1:5",
    "user": "shop",
    "client_id": "\x1b[31m",
    "requests": 2,
    "seconds": 1.0,
    "unread_bytes": 0,
}


def topics(asked):
    if asked and asked["topic"] != "orders":
        raise ValueError(f"no topic {asked['topic']!r}")
    return {"name": "orders", "partitions": [PARTITION]} if asked else {"orders": 1}


def groups(asked):
    if asked:
        return {"commits": [COMMIT]} if asked["group"] == "g" else {"error": "not_coordinator"}
    return {"g": {"state": "Stable", "members": 2, "lag_records": 7}}


class Served:
    unwell = staticmethod(lambda: "")
    reason = ""

    def unready(self):
        return self.reason

    def join(self, timeout):
        return False


@pytest.fixture(scope="module")
def there(free_ports):
    """What a gateway serves, and where."""
    served, health, endpoint = Served(), Health(), f"127.0.0.1:{free_ports(1)}"
    health.watch(served)
    health.show(
        {
            "/topics": topics,
            "/groups": groups,
            "/connections": lambda _: [CLIENT],
        }
    )
    serve_health(endpoint, health)
    return served, endpoint


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (("topics", "AT"), {"topic": "orders", "partitions": 1}),
        (("topics", "AT", "orders"), PARTITION),
        (("groups", "AT"), {"group": "g", "state": "Stable", "members": 2, "lag_records": 7}),
        (("groups", "AT", "g"), COMMIT),
        (("connections", "AT"), CLIENT),
    ],
)
def test_what_a_gateway_shows_is_told_to_scripts_and_people(dafka, there, words, row):
    words = [there[1] if word == "AT" else word for word in words]
    done = dafka("gateway", *words, "--json")
    assert done.returncode == 0, done.stderr
    assert rows_of(done.stdout) == [row]
    shown = dafka("gateway", *words).stdout.decode()
    assert "\x1b[31m" not in shown
    assert str(next(iter(row.values()))) in shown


def test_whether_it_is_ready_is_the_exit_code(dafka, there):
    served, endpoint = there
    assert dafka("gateway", "status", endpoint).stdout == b"ready\n"
    served.reason = "orders 3 is not served"
    done = dafka("gateway", "status", endpoint, "--json")
    served.reason = ""
    assert done.returncode == 1
    assert rows_of(done.stdout)[0] == {
        "gateway": endpoint,
        "ready": False,
        "reasons": ["orders 3 is not served"],
    }


def test_what_cannot_be_told_is_said(refused, there, free_ports):
    endpoint = there[1]
    assert "no topic 'none'" in refused(2, "gateway", "topics", endpoint, "none")
    assert "ask another gateway" in refused(1, "gateway", "groups", endpoint, "other")
    assert "belong together" in refused(2, "gateway", "topics", endpoint, "--token", "x")
    nobody = f"127.0.0.1:{free_ports(1)}"
    assert f"no answer from {nobody}" in refused(1, "gateway", "status", nobody)
    assert "'here'" in refused(2, "gateway", "status", "here")
    store = f"127.0.0.1:{free_ports(1)}"
    serve_health(store, Health())
    assert "does not answer as a gateway" in refused(1, "gateway", "topics", store)


@pytest.mark.parametrize("tls", [False, True])
def test_a_token_opens_what_is_for_its_holders(dafka, refused, tmp_path, free_ports, tls):
    file, tokens = write_web(tmp_path, tls=tls, ops=["metrics"])
    token = tmp_path / "ops.token"
    token.write_text(tokens["ops"])
    token.chmod(0o600)
    endpoint, health = f"127.0.0.1:{free_ports(1)}", Health()
    health.show({"/topics": topics})
    serve_health(endpoint, health, load_web_access(file))
    shown = dafka("gateway", "topics", endpoint, "--web", str(file), "--token", str(token))
    assert shown.returncode == 0, shown.stderr
    assert b"orders" in shown.stdout
    refused(1, "gateway", "topics", endpoint)
