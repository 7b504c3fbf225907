from __future__ import annotations

import base64
import logging

import pytest
from cryptography.hazmat.primitives import serialization

from dafka.errors import MisuseError
from dafka.process import metrics
from dafka.process.web_access import entry, load_web_access, new_token, scheme_of
from tests.support.certificates import write_web


def basic(name, token):
    return "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()


@pytest.fixture
def told(tmp_path):
    rights = {"prom": ["metrics"], "shop": ["schemas"], "ci": ["register"], "idle": []}
    file, tokens = write_web(tmp_path, **rights)
    return load_web_access(file), tokens


def test_a_token_is_good_for_its_rights_however_it_is_shown(told):
    access, tokens = told
    assert access.refusal(f"Bearer {tokens['prom']}", "metrics") is None
    assert access.refusal(f"bearer  {tokens['prom']}", "metrics") is None
    assert access.refusal(basic("prom", tokens["prom"]), "metrics") is None
    assert access.refusal(f"Bearer {tokens['ci']}", "schemas") is None, "who writes may read"
    assert access.refusal(f"Bearer {tokens['ci']}", "register") is None
    for name, right in [("shop", "register"), ("prom", "schemas"), ("idle", "metrics")]:
        refused = access.refusal(f"Bearer {tokens[name]}", right)
        assert refused.status == 403
        assert f"{name}'s token is not good for {right}" in refused.message


def test_nothing_else_is_a_token(told):
    access, tokens = told
    token = tokens["prom"]
    other = basic("shop", token)
    digest = access.holders and next(iter(access.holders)).hex()
    for shown in (None, "", token, "Bearer", "Bearer ", f"Bearer {token}x", f"Bearer {digest}"):
        assert access.refusal(shown, "metrics").status == 401, shown
    for shown in (other, "Basic", "Basic !", "Basic /w==", basic("", token), f"Digest {token}"):
        assert access.refusal(shown, "metrics").status == 401, shown
    assert access.refusal("Basic " + "A" * 100_000, "metrics").status == 401


def test_refusals_are_counted(told):
    access, tokens = told
    counts = [metrics.WEB_REFUSED.labels(status) for status in ("401", "403")]
    before = [count._value.get() for count in counts]
    access.refusal(None, "metrics")
    access.refusal(f"Bearer {tokens['idle']}", "metrics")
    access.refusal(f"Bearer {tokens['prom']}", "metrics")
    assert [count._value.get() for count in counts] == [before[0] + 1, before[1] + 1]


def test_tokens_differ_and_the_file_does_not_have_them():
    assert len({new_token() for _ in range(100)}) == 100
    token = new_token()
    assert token not in entry("me", token, ["metrics"])


GOOD = entry("me", "token", ["metrics"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "dafka keys NAME --web"),
        ("tokens = 5", "it needs 1 to"),
        ("x = 1\n" + GOOD, "unknown key 'x'"),
        ("[tokens.me]\nmay = []", "must have sha256 and may"),
        ("[tokens]\nme = 5", "must have sha256 and may"),
        (GOOD.replace('["metrics"]', '["all"]'), "which are not among metrics, dashboard"),
        (GOOD.replace('["metrics"]', "5"), "which are not among"),
        ('[tokens.me]\nsha256 = "AB"\nmay = []', "64 hexadecimal digits"),
        ('certificate = "a"\n' + GOOD, "belong together"),
        ("[[[", "cannot be used"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(tmp_path, text, why):
    file = tmp_path / "web.toml"
    file.write_text(text)
    with pytest.raises(MisuseError, match=why) as raised:
        load_web_access(file)
    assert str(file) in str(raised.value)


def test_a_certificate_is_looked_at_before_anything_is_served(tmp_path):
    file, _ = write_web(tmp_path, tls=True, me=["metrics"])
    assert load_web_access(file).context() is not None
    key = tmp_path / "web.key"
    key.chmod(0o644)
    with pytest.raises(MisuseError, match="others may read it"):
        load_web_access(file)
    key.chmod(0o600)
    plain = key.read_bytes()
    locked = serialization.load_pem_private_key(plain, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    key.write_bytes(locked)
    with pytest.raises(MisuseError, match=r"with key .*web\.key.* cannot be used"):
        load_web_access(file)
    key.write_bytes(plain)
    (tmp_path / "web.crt").write_text("none")
    with pytest.raises(MisuseError, match=r"certificate .*web\.crt.* cannot be used"):
        load_web_access(file)
    (tmp_path / "web.crt").unlink()
    with pytest.raises(MisuseError, match=r"web\.crt"):
        load_web_access(file)


def test_tokens_in_the_clear_are_told_of_where_others_can_listen(tmp_path, told, caplog):
    access, _ = told
    with caplog.at_level(logging.WARNING):
        assert scheme_of(None, "0.0.0.0", "it") == "http"
        assert scheme_of(access, "127.0.0.1", "it") == "http"
        assert scheme_of(access, "[::1]", "it") == "http"
        assert not caplog.records
        assert scheme_of(access, "0.0.0.0", "it") == "http"
        assert "tokens cross the network" in caplog.text
    file, _ = write_web(tmp_path, tls=True, me=["metrics"])
    assert scheme_of(load_web_access(file), "0.0.0.0", "it") == "https"
