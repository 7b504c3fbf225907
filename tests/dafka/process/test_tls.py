from __future__ import annotations

import ssl

import pytest
import trustme

from dafka.errors import MisuseError
from dafka.process.tls import server_context


@pytest.fixture
def files(tmp_path):
    """A certificate with its key in one file, and the authority's."""
    authority = trustme.CA()
    made, signer = tmp_path / "own.pem", tmp_path / "ca.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(made)
    made.chmod(0o600)
    authority.cert_pem.write_to_path(signer)
    return made, signer


def test_nobody_is_asked_for_a_certificate_unless_it_is_said_whose_are_believed(files):
    made, signer = files
    assert server_context(made, made).verify_mode is ssl.CERT_NONE
    assert server_context(made, made, signer).verify_mode is ssl.CERT_OPTIONAL


def test_a_file_that_cannot_be_used_is_named(files):
    made, signer = files
    with pytest.raises(MisuseError, match=r"certificate .*ca\.pem' with key .* cannot be used"):
        server_context(signer, made)
    signer.write_text("none")
    with pytest.raises(MisuseError, match=r"client_ca .*ca\.pem cannot be used"):
        server_context(made, made, signer)
    made.chmod(0o644)
    with pytest.raises(MisuseError, match="others may read it"):
        server_context(made, made)
