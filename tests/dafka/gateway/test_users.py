from __future__ import annotations

import ssl

import pytest

from dafka.errors import MisuseError
from dafka.gateway.scram import MECHANISMS, proves
from dafka.gateway.users import load_users, user_entry, with_quotas
from dafka.transport.access import Rights
from tests.support.certificates import write_users

KEPT = user_entry("a", "secret", {})


def write(tmp_path, text):
    file = tmp_path / "kafka.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_users_have_the_rights_that_the_file_says(tmp_path):
    rules = {"read": ["orders*"], "write": ["orders-eu*"], "groups": ["shop*"]}
    file, passwords = write_users(tmp_path, shop=rules, nobody={})
    known = load_users(file)
    assert known.users["shop"].rights == Rights(("orders",), ("orders-eu",), groups=("shop",))
    assert known.users["nobody"].rights == Rights(groups=())
    assert not known.users["nobody"].rights.may_commit("shop-1")
    for mechanism in MECHANISMS:
        assert proves(known.verifier("shop", mechanism), mechanism, passwords["shop"])
    assert known.context() is None


def test_nobody_learns_who_is_known(tmp_path):
    known = load_users(write_users(tmp_path, shop={})[0])
    for mechanism in MECHANISMS:
        real, made_up = (known.verifier(name, mechanism) for name in ("shop", "other"))
        assert list(map(type, real)) == list(map(type, made_up))
        assert [len(real[part]) for part in (0, 2, 3)] == [len(made_up[part]) for part in (0, 2, 3)]
        again = load_users(tmp_path / "kafka.toml").verifier("other", mechanism)
        assert (again.salt, again.iterations) == (made_up.salt, made_up.iterations)
        assert again.stored_key != made_up.stored_key, "nothing that could be guessed"


def test_quotas_have_the_names_of_kafkas(tmp_path):
    rates = "producer_byte_rate = 1000\nconsumer_byte_rate = 5\n"
    known = load_users(write(tmp_path, KEPT + rates)).users["a"]
    assert (known.producer_byte_rate, known.consumer_byte_rate) == (1_000, 5)
    known = load_users(write(tmp_path, KEPT)).users["a"]
    assert (known.producer_byte_rate, known.consumer_byte_rate) == (None, None)


def test_certificates_name_users_where_an_authority_is_given(tmp_path):
    file, _ = write_users(tmp_path, tls=True, shop={})
    context = load_users(file).context()
    assert context.verify_mode is ssl.CERT_OPTIONAL
    text = file.read_text().replace('client_ca = "ca.pem"', "")
    assert load_users(write(tmp_path, text)).context().verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it needs 1 to 1,000 users: dafka keys NAME --kafka"),
        ("users = 5", "it needs 1 to"),
        ("[users]", "it needs 1 to"),
        ("x = 1" + KEPT, "unknown key 'x'"),
        ("[users]\na = 1", "user 'a' must be a table"),
        ('[users.""]', "a user needs a name"),
        (KEPT + "password = 'p'", "unknown key 'password' of user 'a'"),
        (KEPT + "read = 'x'", "read of user 'a' must be a list of rules"),
        (KEPT + "read = [1]", "read of user 'a' must be a list of rules"),
        (KEPT + "read = ['x']", "read of user 'a': rule 'x' cannot be used"),
        ("[users.a]\nscram-sha-256 = 5", "scram-sha-256 of user 'a' is no verifier"),
        ("[users.a]\nscram-sha-512 = 'x'", "scram-sha-512 of user 'a' is no verifier"),
        ("certificate = 'c'" + KEPT, "`certificate` and `certificate_key` belong together"),
        ("certificate = 5\ncertificate_key = 5" + KEPT, "are paths"),
        ("client_ca = 'c'" + KEPT, "`client_ca` needs `certificate`"),
        (KEPT + "producer_byte_rate = 0", "producer_byte_rate of user 'a' must be bytes a second"),
        (
            KEPT + "consumer_byte_rate = 1.5",
            "consumer_byte_rate of user 'a' must be",
        ),
        (KEPT + "consumer_byte_rate = true", "consumer_byte_rate of user 'a' must be"),
        ("not toml", "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_the_reason(tmp_path, text, says):
    with pytest.raises(MisuseError) as error:
        load_users(write(tmp_path, text))
    assert says in str(error.value)
    assert "kafka.toml" in str(error.value)


def test_files_that_it_names_have_to_be_there_and_be_certificates(tmp_path):
    file, _ = write_users(tmp_path, tls=True, shop={})
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(MisuseError, match=r"ca\.pem cannot be used"):
        load_users(file)
    (tmp_path / "kafka.pem").unlink()
    with pytest.raises(MisuseError, match=r"kafka\.pem"):
        load_users(file)


def test_what_is_kept_of_passwords_is_its_owners(tmp_path):
    file, _ = write_users(tmp_path, shop={})
    file.chmod(0o644)
    with pytest.raises(MisuseError, match="others may read it"):
        load_users(file)


def test_quotas_are_not_written_where_an_entry_is_not_understood():
    text = '[users]\nshop = {read = ["*"]}\n'
    with pytest.raises(MisuseError, match="edit the file"):
        with_quotas(text, "shop", {"producer_byte_rate": 5})


def test_quotas_are_written_into_the_entry_of_their_user_alone():
    text = '[users."a"]\nread = ["x*"]  # why\n\n[users."b"]\nproducer_byte_rate = 7\n'
    written = with_quotas(text, "a", {"producer_byte_rate": 5})
    assert written == text.replace('"a"]\n', '"a"]\nproducer_byte_rate = 5\n')
    assert with_quotas(written, "a", {"producer_byte_rate": None}) == text
