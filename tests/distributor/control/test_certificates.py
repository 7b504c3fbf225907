from __future__ import annotations

import asyncio

import grpc
import pytest

from dafka.errors import MisuseError
from distributor.control.certificates import Certificates, bind

pytestmark = pytest.mark.net


def bound(*given):
    async def run():
        return bind(grpc.aio.server(), *given)

    return asyncio.run(run())


def test_a_port_is_taken_without_certificates():
    assert bound("127.0.0.1:0", None, "somebody") > 0


def test_what_cannot_be_used_is_said():
    wrong = Certificates(b"no", b"certificate", b"at all")
    with pytest.raises(MisuseError, match=r"cannot serve somebody at 127\.0\.0\.1:0"):
        bound("127.0.0.1:0", wrong, "somebody")
