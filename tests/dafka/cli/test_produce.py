from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dafka.limits import RECORD_BYTES_MAX
from dafka.node.producer import Producer

pytestmark = [pytest.mark.net, pytest.mark.slow]

NOBODY = "tcp://127.0.0.1:9"
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_lines_go_in_and_come_out(cluster, dafka):
    produced = dafka("produce", "lines", "--tower", cluster.tower, given=b"one\r\ntwo\n\n\xff")
    assert produced.returncode == 0, produced.stderr
    assert produced.stderr == b"4 records stored\n"
    assert produced.stdout == b""
    consumed = dafka(
        *("consume", "lines", "--tower", cluster.tower, "--from-beginning", "--max", "4")
    )
    assert consumed.returncode == 0, consumed.stderr
    assert consumed.stdout == b"one\ntwo\n\n\xff\n"
    assert consumed.stderr == b""


def test_on_a_terminal_values_are_shown_and_not_obeyed(cluster, dafka):
    given = "café \x1b[2J".encode() + b"\xff\n"
    dafka("produce", "escapes", "--tower", cluster.tower, given=given)
    terminal, stdout = pty.openpty()
    words = ("consume", "escapes", "--tower", cluster.tower, "--from-beginning", "--max", "1")
    done = subprocess.run([sys.executable, "-m", "dafka", *words], stdout=stdout, timeout=60)
    os.close(stdout)
    assert done.returncode == 0
    assert os.read(terminal, 1_000) == "café \\x1b[2J\\udcff\r\n".encode()
    os.close(terminal)


def test_keys_and_headers_go_in_and_come_out_in_kcats_letters(cluster, dafka):
    produced = dafka(
        *("produce", "keys", "--tower", cluster.tower, "--key-separator", ":"),
        *("--header", "from=test"),
        given=b"a:1\nb:2:3\n",
    )
    assert produced.returncode == 0, produced.stderr
    more = ("--record-key", "c", "--header", "x=1", "--header", "y=")
    assert dafka("produce", "keys", "--tower", cluster.tower, *more, given=b"4\n").returncode == 0
    consumed = dafka(
        *("consume", "keys", "--tower", cluster.tower, "--from-beginning", "--max", "3"),
        *("--format", r"%t %k=%v [%h]\n"),
    )
    assert consumed.returncode == 0, consumed.stderr
    lines = consumed.stdout.splitlines()
    assert sorted(lines) == [
        b"keys a=1 [from=test]",
        b"keys b=2:3 [from=test]",
        b"keys c=4 [x=1,y=]",
    ]


def test_one_line_is_one_record(cluster, dafka):
    produced = dafka("produce", "line", "--tower", cluster.tower, given=b"one\n")
    assert produced.stderr == b"1 record stored\n"


def test_json_goes_in_and_comes_out(cluster, dafka):
    sent = [
        {"value": "v", "key": "k", "headers": {"h": "1", "n": None}, "timestamp_ms": 5},
        {"value": {"base64": "/w=="}, "key": None, "headers": {}, "timestamp_ms": 6},
        {"value": None, "key": "", "headers": {}, "timestamp_ms": 7},
    ]
    given = "\n".join(map(json.dumps, sent)).encode()
    produced = dafka("produce", "json", "--json", "--tower", cluster.tower, given=given)
    assert produced.returncode == 0, produced.stderr
    consumed = dafka(
        *("consume", "json", "--json", "--tower", cluster.tower),
        *("--from-beginning", "--max", "3"),
    )
    got = [json.loads(line) for line in consumed.stdout.splitlines()]
    assert [{name: row[name] for name in sent[0]} for row in got] == sent
    assert [row["sequence"] for row in got] == [0, 1, 2]


def test_consuming_ends_when_nothing_comes(cluster, dafka):
    done = dafka("consume", "empty", "--tower", cluster.tower, "--timeout", "0.1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_consumer_that_is_there_sees_all_that_a_new_producer_sends(cluster, dafka):
    command = [sys.executable, "-m", "dafka", "consume", "seen", "--tower", cluster.tower]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as consuming:
        try:
            with Producer(cluster.tower) as early:
                while not select.select([consuming.stdout], [], [], 0.2)[0]:
                    early.send("seen", b"0")
            time.sleep(10)  # what was there before it is known some 3 s after it has found others
            given = b"1\n2\n3\n4\n5\n"
            produced = dafka("produce", "seen", "--tower", cluster.tower, given=given)
            assert produced.returncode == 0, produced.stderr
            lines = []
            while b"5\n" not in lines:
                lines.append(consuming.stdout.readline())
                assert lines[-1], "it has ended"
            consuming.send_signal(signal.SIGINT)
            consuming.communicate(timeout=120)
        finally:
            consuming.kill()
    assert [line for line in lines if line != b"0\n"] == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"]


def test_consuming_several_topics(cluster, dafka):
    for topic in ("several-1", "several-2"):
        dafka("produce", topic, "--tower", cluster.tower, given=topic.encode())
    done = dafka(
        *("consume", "several-1", "several-2", "--tower", cluster.tower),
        *("--from-beginning", "--max", "2"),
    )
    assert sorted(done.stdout.splitlines()) == [b"several-1", b"several-2"]


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_ends_consuming_quietly(cluster, dafka, number):
    topic = f"stop-{number.name}"
    dafka("produce", topic, "--tower", cluster.tower, given=b"one")
    command = [sys.executable, "-m", "dafka", "consume", topic, "--from-beginning"]
    with subprocess.Popen(
        [*command, "--tower", cluster.tower], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout.readline() == b"one\n"
        running.send_signal(number)
        _, error = running.communicate(timeout=120)
    assert (running.returncode, error) == (0, b"")


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_ends_a_member_of_a_group_behind_what_it_printed(cluster, dafka, number):
    topic = f"member-{number.name}"
    dafka("produce", topic, "--tower", cluster.tower, given=b"0\n1\n2\n3")
    words = ("consume", topic, "--tower", cluster.tower, "--store", cluster.query)
    words += ("--group", topic, "--from-beginning")
    with subprocess.Popen(
        [sys.executable, "-m", "dafka", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert [running.stdout.readline() for _ in range(4)] == [b"0\n", b"1\n", b"2\n", b"3\n"]
        running.send_signal(number)
        _, error = running.communicate(timeout=120)
    assert (running.returncode, error) == (0, b"")
    dafka("produce", topic, "--tower", cluster.tower, given=b"4")
    went_on = dafka(*words, "--max", "1")
    # The last one it printed may not have been processed yet, as far as it knew.
    assert went_on.stdout in (b"3\n", b"4\n"), went_on.stderr


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_ends_producing_when_all_is_stored(cluster, dafka, number):
    topic = f"produced-{number.name}"
    words = ("produce", topic, "--tower", cluster.tower)
    with subprocess.Popen(
        [sys.executable, "-m", "dafka", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        running.stdin.write(b"one\ntwo\n")
        running.stdin.flush()
        seen = dafka(
            *("consume", topic, "--tower", cluster.tower),
            *("--from-beginning", "--max", "2", "--timeout", "20"),
        )
        assert seen.stdout == b"one\ntwo\n"
        running.send_signal(number)
        running.wait(120)
        assert (running.returncode, running.stderr.read()) == (0, b"2 records stored\n")


def test_a_full_disk_behind_what_is_consumed_is_one_line(cluster, dafka):
    dafka("produce", "unwritten", "--tower", cluster.tower, given=b"one")
    words = ("consume", "unwritten", "--tower", cluster.tower, "--from-beginning", "--json")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dafka", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"dafka: cannot write to standard output: No space left")
    assert len(done.stderr.splitlines()) == 1


def test_a_line_that_is_too_long_is_refused_and_those_before_are_stored(cluster, dafka, refused):
    given = b"one\ntwo\n" + b"0" * (RECORD_BYTES_MAX + 100) + b"\nfour\n"
    error = refused(2, "produce", "long", "--tower", cluster.tower, given=given)
    assert error.startswith("dafka: line 3: longer than ")
    assert error.endswith("break it up; 2 records stored before it")
    seen = dafka("consume", "long", "--tower", cluster.tower, "--from-beginning", "--timeout", "2")
    assert seen.stdout == b"one\ntwo\n"


def test_json_that_is_refused_has_the_number_of_its_line(cluster, refused):
    given = b'{"value": 1}\n{"value": 2, "timestamp_ms": 99999999999999999999}\n'
    error = refused(2, "produce", "times", "--json", "--tower", cluster.tower, given=given)
    assert error.startswith('dafka: line 2: "timestamp_ms" must be a whole number')
    assert error.endswith("1 record stored before it")


def test_the_help_names_every_field_of_a_record(dafka):
    text = " ".join(dafka("produce", "--help").stdout.decode().split())
    for field in ("value", "key", "headers", "timestamp_ms", "base64"):
        assert f'"{field}"' in text


def test_without_a_standard_input_there_is_nothing_to_produce():
    words = [sys.executable, "-m", "dafka", "produce", "orders", "--tower", NOBODY]
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *words]
    done = subprocess.run(closed, capture_output=True, timeout=60, check=False)
    said = b"dafka: standard input is closed: give it the lines to publish\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_a_line_that_never_ends_is_refused(cluster):
    words = [sys.executable, "-m", "dafka", "produce", "endless", "--tower", cluster.tower]
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(words, stdin=zeros, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"dafka: line 1: longer than ")


@pytest.mark.parametrize("command", ["consume", "produce"])
def test_a_tower_that_does_not_answer_is_named(command, dafka):
    done = dafka(command, "orders", "--tower", NOBODY, "--timeout", "4", given=b"1\n")
    meanwhile, last = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert f"tower={NOBODY}" in meanwhile
    assert f"the tower at {NOBODY}" in last


def test_without_a_store_producing_says_what_is_not_stored(refused):
    words = ("produce", "orders", "--tower", NOBODY, "--timeout", "0.1")
    assert "2 records of 'orders'" in refused(1, *words, given=b"1\n2\n")


@pytest.mark.parametrize(
    ("words", "given", "what"),
    [
        (("produce", "orders", "--tower", "here"), b"1", "'here'"),
        (("consume", "orders", "--tower", "here"), b"", "'here'"),
        (("produce", "x" * 250, "--tower", NOBODY), b"1", "1 to 249 bytes"),
        (("consume", "", "--tower", NOBODY), b"", "1 to 249 bytes"),
        (("produce", "orders", "--tower", NOBODY, "--host", "192.0.2.1"), b"1", "192.0.2.1"),
        (("produce", "orders", "--json", "--tower", NOBODY), b"no json", "not JSON"),
        (("produce", "orders", "--log-level", "loud", "--tower", NOBODY), b"1", "'loud'"),
        (("consume", "orders", "--log-level", "loud", "--tower", NOBODY), b"", "'loud'"),
    ],
    ids=range(8),
)
def test_a_mistake_is_one_line_and_exit_code_2(refused, words, given, what):
    assert what in refused(2, *words, given=given)


def test_a_group_without_its_store_says_so(cluster, dafka):
    words = ("consume", "shared", "--tower", cluster.tower, "--store", NOBODY, "--group", "lone")
    with subprocess.Popen(
        [sys.executable, "-m", "dafka", *words], stderr=subprocess.PIPE
    ) as running:
        line = running.stderr.readline()
        running.kill()
    assert b"store does not answer: the group stands still" in line
    assert NOBODY.encode() in line


def test_consumers_of_a_group_go_on_where_it_was(cluster, dafka):
    given = b"".join(b"%d\n" % number for number in range(6))
    assert dafka("produce", "shared", "--tower", cluster.tower, given=given).returncode == 0
    words = ("consume", "shared", "--tower", cluster.tower, "--store", cluster.query)
    words += ("--group", "billing", "--from-beginning", "--max", "3")
    first, second = dafka(*words), dafka(*words)
    assert first.stdout.split() == [b"0", b"1", b"2"], first.stderr
    assert second.stdout.split() == [b"3", b"4", b"5"], second.stderr
