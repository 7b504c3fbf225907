"""Files for what speaks HTTP: tokens, and a certificate that is its own authority."""

from __future__ import annotations

import trustme

from dafka.process.web_access import entry, new_token


def write_web(directory, *, tls=False, **may):
    """Write `web.toml`, a certificate for this machine if `tls`; return the file and the tokens.

    Each of `may` is a name and its rights.
    """
    lines = []
    if tls:
        authority = trustme.CA()
        made = authority.issue_cert("127.0.0.1", "localhost")
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        (directory / "web.crt").write_bytes(chain + authority.cert_pem.bytes())
        (directory / "web.key").write_bytes(made.private_key_pem.bytes())
        (directory / "web.key").chmod(0o600)
        lines = ['certificate = "web.crt"\n', 'certificate_key = "web.key"\n']
    tokens = {name: new_token() for name in may}
    lines += [entry(name, tokens[name], rights) for name, rights in may.items()]
    file = directory / "web.toml"
    file.write_text("".join(lines))
    return file, tokens
