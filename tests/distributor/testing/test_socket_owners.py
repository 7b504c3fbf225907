from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from distributor.testing.socket_owners import SocketOwners, inode_of, listening

pytestmark = pytest.mark.net


def inode(one):
    return os.fstat(one.fileno()).st_ino


@pytest.mark.parametrize(("family", "shown"), [(socket.AF_INET, ""), (socket.AF_INET6, "::ffff:")])
def test_who_listens_and_both_ends_of_a_connection(family, shown):
    with socket.socket(family) as listener:
        listener.bind((f"{shown}127.0.0.3", 0))
        listener.listen()
        place = ("127.0.0.3", listener.getsockname()[1])
        assert listening()[place] == inode(listener)
        with socket.create_connection(place) as client, listener.accept()[0] as server:
            here = client.getsockname()
            assert inode_of(here, place) == inode(client)
            assert inode_of(place, here) == inode(server)
    assert place not in listening()


def test_a_connection_that_is_not_there_has_no_inode():
    assert inode_of(("127.0.0.3", 1), ("127.0.0.3", 2)) is None


def test_whose_a_socket_is_also_one_that_was_opened_later():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owners = SocketOwners(lambda: {ended.pid: "ended", os.getpid(): "tests"})
    strangers = SocketOwners(lambda: {ended.pid: "ended", os.getppid(): "parent"})
    for _ in range(2):
        with socket.socket() as one:
            assert owners.of(inode(one)) == "tests"
            assert strangers.of(inode(one)) == ""
            assert owners.among([inode(one), 1]) == {inode(one): "tests"}
            assert strangers.among([inode(one)]) == {}


def test_what_speaks_ipv6_is_left_out():
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listener.listen()
        assert inode(listener) not in listening().values()
