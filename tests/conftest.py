"""What all tests share: how much to try, ports of their own, and waiting with a deadline."""

from __future__ import annotations

import atexit
import errno
import gc
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from dafka.errors import MisuseError
from dafka.groups.commit import TOPIC, Commit, CommitKey, encode
from dafka.model import Batch, Partition
from dafka.process.logs import OURS
from dafka.records.batch import BatchBuilder, enclosed
from dafka.spark.session import ensure_java, open_session
from distributor.testing import spark_daemon
from distributor.testing.standalone import FRUGAL

SEEDS_PER_TEST = 10
"""Seeds of the simulator in one test, so that workers share them evenly."""

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("night", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# kio imports Hypothesis where it is installed, which then makes a directory where a process begins:
# also where a test looks that nothing was made.
STORAGE = Path(__file__).parents[1] / ".hypothesis"
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(STORAGE))

# Commands leave a signal ignored that they were started to ignore: here they shall hear it, also
# where the whole run was started by nohup, or by a script in the background.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# As the product has it (distributor/control): whatever imports gRPC first.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Each driver of Spark's, however it is started.
os.environ["SPARK_SUBMIT_OPTS"] = FRUGAL
os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Commands of tests mean no cluster of whoever runs them.
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="dafka-no-contexts-")
atexit.register(shutil.rmtree, os.environ["XDG_CONFIG_HOME"], ignore_errors=True)
for variable in [name for name in os.environ if name.startswith("DAFKA_")]:
    if variable != "DAFKA_TEST_CACHE":
        del os.environ[variable]

# Each command that is started as a process would compile all it imports, where this is set.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config):
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None and workerinput["workerid"] == f"gw{COMPUTER}":
        os.nice(5)  # others wait for processes, which have deadlines


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=30, help="how many seeds of the simulator to run")
    parser.addoption(
        "--fuzz-cases", type=int, default=5_000, help="how many mutations each decoder is given"
    )
    parser.addoption(
        "--dead-records",
        type=int,
        default=200_000,
        help="how many records of a dead producer to read over real sockets",
    )
    parser.addoption(
        "--every-fault",
        action="store_true",
        help="break each kind of process of a link's target in each way, not some in some",
    )
    parser.addoption(
        "--hostile-s",
        type=float,
        default=0.0,
        help="how long hostile peers attack real processes, also with single floods; from a minute"
        " on latency is judged",
    )
    parser.addoption(
        "--kill-rounds",
        type=int,
        default=0,
        help="how often gateways and stores are killed while Kafka clients write",
    )


def pytest_generate_tests(metafunc):
    if "seeds" in metafunc.fixturenames:
        total = metafunc.config.getoption("--seeds")
        chunks = [
            range(first, min(first + SEEDS_PER_TEST, total))
            for first in range(0, total, SEEDS_PER_TEST)
        ]
        metafunc.parametrize("seeds", chunks, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thirteen thousand tests are no garbage: looking for some takes a fifth of their collection,
    and later half a second of each full look."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Workers take from both ends: what computes comes first, what waits last. Of that, files lie
    as if shuffled: those that start processes stand side by side, and shall not run so."""
    for item in items:
        if _piece(item.nodeid) in (SHARED_SPARK, *SPARK_PROGRAMS):
            item.add_marker(AGAIN_IF_PYTHON_IS_LATE)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.nodeid))


AGAIN_IF_PYTHON_IS_LATE = pytest.mark.flaky(
    reruns=8, reruns_delay=20, only_rerun="Python worker failed to connect back"
)
"""Spark gives the Python of a streaming source ten seconds to come up, which no setting changes,
and a machine on which others start thirty processes may take longer. Whoever runs such a query
starts it again, once those are up; so do tests, and for no other reason."""


def _place(nodeid):
    if nodeid.startswith(COMPUTING) or _piece(nodeid) in LONG_PIECES:
        return 0, 0
    return 1, crc32(nodeid.partition("::")[0].encode())


TREES = tuple(
    f"tests/processes/test_{name}.py"
    for name in (
        *("apply", "controlled", "controlled_faults", "drill", "faults", "gateways_of_a_tree"),
        *("kafka_demo", "links", "newcomer", "offsets", "schemas", "steering", "stops"),
        *("up", "up_with_keys", "verify", "web"),
    )
)
"""Tests that start whole clusters of processes, up to thirty of them."""

SPARK_PROGRAMS = (
    "tests/distributor/cli/test_spark.py",
    "tests/distributor/testing/test_spark_faults.py",
    "tests/processes/test_spark_cluster.py",
    "tests/scenarios/test_spark_sink.py",
)
"""Tests that start sessions and clusters of Spark of their own, and share none."""

WITHOUT_SPARK = frozenset(
    [
        *("commit", "placing", "planning", "progress"),
        *("publication", "staging", "topic_sinks"),
    ]
)
"""Tests of `dafka/spark` in which threads do what Spark's drivers and tasks do: they wait."""

SHARED_SPARK = "the session of Spark"

LONG = (TREES, (SHARED_SPARK,), SPARK_PROGRAMS)
"""Pieces that keep a core busy for minutes, those of a kind together. Kinds begin in this order."""

LONG_PIECES = frozenset(piece for kind in LONG for piece in kind)

LONG_AT_THE_END = 3
"""So many workers run some when nothing else is left, two of them of one kind: they wait, too."""

COMPUTING = (
    *("tests/benchmarks/", "tests/contracts/", "tests/topology/"),
    *("tests/dafka/testing/", "tests/distributor/testing/"),
)
"""Tests that keep a core busy: simulators and properties. Of all others together most wait, for
timers and for processes, some nine tenths of their time."""

COMPUTER = 2
"""The worker that begins with these: one, since two cores also have trees and Spark to run, and it
lets those go first."""


def _piece(nodeid):
    """What is run by one worker: a test, or all that share something dear."""
    file = nodeid.partition("::")[0]
    if file.endswith("dashboard/test_page.py"):
        return "browser"
    if file == "tests/test_site.py":
        return "site"
    if file in LONG_PIECES:
        return file
    if file.removeprefix("tests/dafka/spark/test_").removesuffix(".py") in WITHOUT_SPARK:
        return nodeid
    dear = any(word in file for word in ("spark", "audit", "cli/test_judge"))
    return SHARED_SPARK if dear else nodeid


class _DearThingsTogether(LoadScopeScheduling):
    """Deals tests one by one, but those of one session of Spark together, those of a page in a
    browser and those of the documentation, since one of each shall do for all; and by files those
    that start Spark and those of many processes, one after the other while there is anything else
    to run: two trees beside each other and all that are late.

    (xdist's own `loadgroup` deals marked tests apart under pytest 9.)
    """

    def _split_scope(self, nodeid):
        return _piece(nodeid)

    def _reschedule(self, node):
        # At each test xdist counts through all that its worker has been given: some thousands here.
        given = self.assigned_work[node]
        for piece in [one for one, tests in given.items() if all(tests.values())]:
            del given[piece]
        super()._reschedule(node)

    def _assign_work_unit(self, node):
        piece = self._next_piece(node)
        if piece is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(piece, last=False)
        super()._assign_work_unit(node)

    def _next_piece(self, node):
        # Two workers begin with the long pieces, each with another kind. One begins with what
        # computes, and runs none of them: they would stand back as it does. All others together
        # are no core's work.
        number = int(node.gateway.id.removeprefix("gw"))
        only_long = LONG_PIECES.issuperset(self.workqueue)
        if number < COMPUTER or only_long:
            long = None if number == COMPUTER else self._long_piece(node, only_long)
            if long or only_long:
                return long
        pieces = iter(self.workqueue) if number == COMPUTER else reversed(self.workqueue)
        return next(piece for piece in pieces if piece not in LONG_PIECES)

    def _long_piece(self, node, only_long):
        """One that may run beside what others run, of its kind the one of most tests."""
        others = [given.keys() for one, given in self.assigned_work.items() if one is not node]
        if sum(not LONG_PIECES.isdisjoint(given) for given in others) >= LONG_AT_THE_END:
            return None
        for kind in LONG:
            beside = sum(not given.isdisjoint(kind) for given in others)
            left = [piece for piece in kind if piece in self.workqueue]
            if left and beside < (2 if only_long else 1):
                return max(left, key=lambda piece: len(self.workqueue[piece]))
        return None


def pytest_xdist_make_scheduler(config, log):
    return _DearThingsTogether(config, log)


STREAMING_SOURCE = (
    "dafka.spark.source",
    "distributor.spark.source",
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
)
"""What the Python of a streaming source loads before it answers."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A Spark session with two task slots in which a task may fail three times."""
    try:
        ensure_java()
    except MisuseError as error:
        pytest.skip(str(error))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": spark_daemon.__name__,
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "2",
    }
    # What a cold disk would add to the time in which the Python of a streaming source comes up.
    subprocess.run([sys.executable, "-c", f"import {', '.join(STREAMING_SOURCE)}"], check=True)
    session = open_session("local[2,4]", "tests", settings)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def logs_as_before():
    """What a test has set up for log lines ends with it, as the output does that it writes to."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {one: one.level for one in (root, *map(logging.getLogger, OURS))}
    yield
    root.handlers[:] = handlers
    for one, level in levels.items():
        one.setLevel(level)


DEADLINE_S = 300.0
"""How long to wait for what has to come: it decides when a test fails, not how long it takes. At a
load of 30 on two cores a process is some fifteen times as slow as on a quiet machine."""

FIRST_PORT = 21_000
PORTS_PER_WORKER = 700
WORKERS_MAX = 16

# Runs side by side on one machine begin at different places. Blocks follow each other, so that none
# contains a port of one that was given out a moment ago and is not bound yet.
_next_port = os.getpid() * 7 % PORTS_PER_WORKER


LOOPBACKS = (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")


def is_free(port: int) -> bool:
    for family, host in LOOPBACKS:
        with socket.socket(family) as probe:
            # as servers do: a connection that ended within the last minute takes no port from them
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # a machine need not have both
                    return False
    return True


def _free_ports(number: int) -> int:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % WORKERS_MAX
    begin = FIRST_PORT + worker * PORTS_PER_WORKER
    global _next_port
    for _ in range(PORTS_PER_WORKER):
        if _next_port + number > PORTS_PER_WORKER:
            _next_port = 0
        first = begin + _next_port
        _next_port += number
        if all(is_free(port) for port in range(first, first + number)):
            return first
    raise AssertionError(f"no {number} free ports from {begin} on")


@pytest.fixture(scope="session")
def free_ports():
    """A function that returns the first of so many adjacent ports nobody listens on."""
    return _free_ports


@pytest.fixture(scope="session")
def until():
    """A function that polls for a condition, and complains when it does not come true."""

    def until(condition, seconds: float = DEADLINE_S):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {seconds} s: {_place_of(condition)}"
            time.sleep(0.01)
        return found

    return until


def _place_of(condition):
    """Where a condition is written: CI shows of a failure little more than its message."""
    code = getattr(condition, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else repr(condition)


def _reopened(make, seconds: float = DEADLINE_S):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return make()
        except MisuseError as error:
            if "in use" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@pytest.fixture(scope="session")
def reopened():
    """A function that opens again what was just closed: ZeroMQ lets ports go a little later."""
    return _reopened


@pytest.fixture(scope="session")
def committed():
    """A function that makes a batch of commits: (group, partition, position, epoch, ms) each."""

    def committed(sequence, *rows, address="C1"):
        builder = BatchBuilder(1 << 20)
        for group, partition, *rest in rows:
            key, value = encode(CommitKey(group, partition), Commit(*rest))
            builder.append(0, key, value, ())
        content = enclosed(builder.build(), sequence)
        return Batch(Partition(TOPIC, address), sequence, len(rows), content)

    return committed
