from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.process.files import write_secret
from dafka.transport.access import ANYBODY, Access, Rights, fingerprint
from dafka.transport.keys import (
    FILE_BYTES_MAX,
    Credentials,
    load_access,
    load_credentials,
    new_keys,
)

KEY = "k" * 40


@pytest.fixture
def files(tmp_path):
    """A function that writes an access file and a secret key file, and returns their paths."""

    def files(text, secret=None):
        access, key = tmp_path / "access.toml", tmp_path / "me.secret"
        access.write_text(text)
        write_secret(key, secret or new_keys()[1])
        return access, key

    return files


def test_what_a_key_may_do_stands_in_the_access_file(files):
    (cluster, _), (public, secret) = new_keys(), new_keys()
    access, key = files(
        f"cluster = '{cluster}'\n[keys.me]\npublic = '{public}'\nread = ['a*', '*']\n", secret
    )
    credentials = load_credentials(access, key)
    assert credentials == Credentials(
        Access(cluster, {public: Rights(("a", ""), ())}), public, secret
    )
    assert credentials.rights == Rights(("a", ""), ())
    assert secret not in repr(credentials)


def test_the_clusters_own_key_needs_no_entry(files):
    public, secret = new_keys()
    assert load_credentials(*files(f"cluster = '{public}'", secret)).rights == ANYBODY


def test_an_address_begins_with_the_keys_fingerprint():
    credentials = Credentials(Access(KEY, {}), KEY, "secret")
    address = credentials.own_address("0123456789ABCDEF" * 2)
    assert address == fingerprint(KEY) + "0123456789ABCDEF"
    assert len(address) == 32


def test_a_key_that_the_cluster_does_not_know_is_refused(files):
    with pytest.raises(MisuseError, match="is not among those of"):
        load_credentials(*files(f"cluster = '{KEY}'"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "public key of 'cluster'"),
        ("cluster = 5", "public key of 'cluster'"),
        ("cluster = 'short'", "40 characters"),
        (f"cluster = '{KEY}'\nkey = 1", "unknown key 'key'"),
        (f"cluster = '{KEY}'\nkeys = 1", "tables"),
        (f"cluster = '{KEY}'\n[keys]\nme = 1", "'me' must have"),
        (f"cluster = '{KEY}'\n[keys.me]\nread = []", "public key of 'me'"),
        (f"cluster = '{KEY}'\n[keys.me]\npublic = '{KEY}'\nadmin = true", "nothing else"),
        (f"cluster = '{KEY}'\n[keys.me]\npublic = '{KEY}'\nread = '*'", "a list of prefixes"),
        (f"cluster = '{KEY}'\n[keys.me]\npublic = '{KEY}'\nread = [1]", "a list of prefixes"),
        (f"cluster = '{KEY}'\n[keys.me]\npublic = '{KEY}'\nread = ['x']", "rule 'x'"),
        (f"cluster = '{KEY}'\n[keys.a]\npublic = '{KEY}'\n[keys.b]\npublic = '{KEY}'", "two names"),
        ("cluster = ", "cannot be used"),
        ("[" * 5_000, "cannot be used"),
    ],
    ids=range(14),
)
def test_a_wrong_access_file_is_refused_by_name(tmp_path, text, said):
    file = tmp_path / "access.toml"
    file.write_text(text)
    with pytest.raises(MisuseError, match=said) as caught:
        load_access(file)
    assert "access.toml" in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(MisuseError, match="No such file"):
        load_access(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(MisuseError, match="not UTF-8"):
        load_access(tmp_path / "binary")
    (tmp_path / "large").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(MisuseError, match="larger than"):
        load_access(tmp_path / "large")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_secret_that_others_may_read_is_refused(files, mode):
    access, key = files(f"cluster = '{KEY}'")
    key.chmod(mode)
    with pytest.raises(MisuseError, match=f"others may read it.*{mode:o}.*chmod 600"):
        load_credentials(access, key)


@pytest.mark.parametrize("secret", [" ", "x" * 39, "\u00e9" * 40, '"' * 40])
def test_what_is_no_key_is_refused(files, secret):
    with pytest.raises(MisuseError, match="holds no key"):
        load_credentials(*files(f"cluster = '{KEY}'", secret))


def test_a_secret_is_never_written_over(tmp_path):
    write_secret(tmp_path / "me.secret", "one")
    assert (tmp_path / "me.secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(MisuseError, match="File exists"):
        write_secret(tmp_path / "me.secret", "two")
    assert (tmp_path / "me.secret").read_text() == "one\n"
