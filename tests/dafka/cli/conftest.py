"""One cluster in this process for all tests of a file; the commands are real processes."""

from __future__ import annotations

from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from tests.support import json_outputs
from tests.support.commands import run_dafka
from tests.support.small_cluster import SmallCluster


@contextmanager
def running(tmp_path_factory, free_ports, reopened):
    cluster = SmallCluster(tmp_path_factory.mktemp("cluster"), free_ports, reopened)
    with closing(cluster):
        cluster.start_tower()
        cluster.store()
        yield SimpleNamespace(tower=cluster.endpoint, query=cluster.query)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, free_ports, reopened):
    """Endpoints of a tower and of a store."""
    with running(tmp_path_factory, free_ports, reopened) as endpoints:
        yield endpoints


@pytest.fixture(scope="module")
def other_cluster(tmp_path_factory, free_ports, reopened):
    """The same of another one."""
    with running(tmp_path_factory, free_ports, reopened) as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def dafka():
    """A function that runs a command to its end; what it prints as JSON is as its schema says."""

    def dafka(*words, **how):
        done = run_dafka(*words, COLUMNS="200", NO_COLOR="1", **how)
        if "--json" in words and done.returncode == 0:
            json_outputs.check("dafka", words, done.stdout.decode())
        return done

    return dafka


@pytest.fixture
def refused(dafka):
    """A function that runs a command which must end with exit code and one line on stderr."""

    def refused(code, *words, given=b""):
        done = dafka(*words, given=given)
        lines = done.stderr.decode().splitlines()
        assert done.returncode == code, lines
        assert len(lines) == 1, lines
        assert lines[0].startswith("dafka: ")
        return lines[0]

    return refused
