from __future__ import annotations

import time

import pytest
import zmq

from dafka.errors import MisuseError, QueryError, WireError
from dafka.limits import FRAME_BYTES_MAX, QUESTION_BYTES_MAX
from dafka.transport import sockets
from dafka.transport.request import QueryClient, QueryServer

pytestmark = pytest.mark.net

WAIT_MS = 60_000


@pytest.fixture
def server():
    server = QueryServer("tcp://127.0.0.1:*")
    yield server
    server.close()


@pytest.fixture
def client(server):
    with QueryClient(server.endpoint) as client:
        assert client.socket.poll(WAIT_MS, zmq.POLLOUT)
        yield client


def next_question(server):
    assert server.socket.poll(WAIT_MS)
    return server.receive()


def next_answer(client):
    assert client.socket.poll(WAIT_MS)
    return client.receive()


def test_question_and_answer(server, client):
    number = client.send(b"question")
    asker, question = next_question(server)
    assert question == b"question"
    assert server.reply(asker, b"answer")
    assert next_answer(client) == (number, b"answer")


def test_nothing_there(server, client):
    assert server.receive() is None
    assert client.receive() is None


def test_answers_may_come_in_any_order(server, client):
    first, second = client.send(b"1"), client.send(b"2")
    askers = [next_question(server)[0] for _ in range(2)]
    for asker, answer in zip(reversed(askers), (b"two", b"one"), strict=True):
        server.reply(asker, answer)
    assert {next_answer(client) for _ in range(2)} == {(first, b"one"), (second, b"two")}


def test_no_answer_in_time(server, client):
    began = time.monotonic()
    with pytest.raises(QueryError, match=f"no answer from {server.endpoint} within 100 ms"):
        client.ask(b"question", 100)
    assert time.monotonic() - began < 30


def test_who_is_not_reached_is_not_waited_for_as_long_as_an_answer_is(server):
    with QueryClient("tcp://127.0.0.1:1", reach_ms=50) as client:
        with pytest.raises(QueryError, match=r"cannot reach .* within 50 ms"):
            client.ask(b"question", 60_000)
        with pytest.raises(QueryError, match=r"cannot reach .* within 20 ms"):
            client.ask(b"question", 20)
    silent = r"no answer from .* within 500 ms"
    with (
        QueryClient(server.endpoint, reach_ms=WAIT_MS) as client,
        pytest.raises(QueryError, match=silent),
    ):
        client.ask(b"question", 500)


def test_a_late_answer_is_not_taken_for_the_present_one(server, client):
    with pytest.raises(QueryError):
        client.ask(b"first", 50)
    late, _ = next_question(server)
    server.reply(late, b"late")
    client.send(b"second")
    with pytest.raises(QueryError):
        client.ask(b"third", 100)  # the late answer is all there is
    next_question(server)
    third, question = next_question(server)
    assert question == b"third"
    server.reply(third, b"late again")
    with pytest.raises(QueryError):
        client.ask(b"fourth", 100)


def test_nobody_there_is_no_reason_to_queue():
    with QueryClient("tcp://127.0.0.1:1") as client:
        with pytest.raises(QueryError, match=r"cannot reach tcp://127\.0\.0\.1:1 within 50 ms"):
            client.ask(b"question", 50)
        with pytest.raises(QueryError, match=r"cannot ask tcp://127\.0\.0\.1:1"):
            client.send(b"question")


def test_a_server_that_comes_back_is_found_again(server, client):
    endpoint = server.endpoint
    client.send(b"1")
    next_question(server)
    server.close()
    revived = None
    deadline = time.monotonic() + 120
    while revived is None:
        try:
            revived = QueryServer(endpoint)
        except MisuseError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    while True:
        with pytest.raises(QueryError):
            client.ask(b"2", 300)
        if revived.socket.poll(0):
            break
        assert time.monotonic() < deadline
    assert revived.receive()[1] == b"2"
    revived.close()


def test_a_client_that_has_gone_is_no_error(server):
    with QueryClient(server.endpoint) as client:
        assert client.socket.poll(WAIT_MS, zmq.POLLOUT)
        client.send(b"question")
        asker, _ = next_question(server)
    deadline = time.monotonic() + 120
    while server.reply(asker, b"answer"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_reads_gets_all_answers_also_in_a_burst(server, client):
    # What it has read ZeroMQ reports by halves of the mark, and looks at it now and then.
    for _ in range(100):
        for _ in range(sockets.QUESTION_MARK):
            client.send(b"question")
        askers = [next_question(server)[0] for _ in range(sockets.QUESTION_MARK)]
        for asker in askers:
            assert server.reply(asker, b"answer")
        for _ in askers:
            next_answer(client)


def test_a_client_that_does_not_read_is_bounded(server):
    slow = sockets.dealer()
    slow.set(zmq.RCVHWM, 1)
    slow.set(zmq.RCVBUF, 1 << 14)
    slow.connect(server.endpoint)
    slow.send_multipart([b"\0" * 8, b"question"])
    asker, _ = next_question(server)
    answer = bytes(1 << 20)
    replied = [server.reply(asker, answer) for _ in range(100)]
    assert replied.count(False) > 50
    slow.close(0)


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"x"],
        [b"1234567", b"q"],
        [b"123456789", b"q"],
        [b"12345678", b"q", b"r"],
        [b""] * 50,
    ],
)
def test_malformed_questions_are_dropped(server, frames):
    odd = sockets.dealer()
    odd.connect(server.endpoint)
    assert odd.poll(WAIT_MS, zmq.POLLOUT)
    odd.send_multipart(frames)
    assert server.socket.poll(WAIT_MS)
    with pytest.raises(WireError, match="question frames"):
        server.receive()
    odd.send_multipart([b"12345678", b"good"])
    assert next_question(server)[1] == b"good"
    odd.close(0)


def test_malformed_answers_are_dropped(server, client):
    number = client.send(b"question")
    asker, _ = next_question(server)
    for frames in ([b""], [b"x", b"y"], [b"12345678"], [b"12345678", b"a", b"b"]):
        server.socket.send_multipart([asker.connection, *frames])
        assert next_answer(client) is None
    server.reply(asker, b"answer")
    assert next_answer(client) == (number, b"answer")


def test_the_largest_question_arrives_and_a_larger_one_is_not_asked(server, client):
    client.send(bytes(QUESTION_BYTES_MAX))
    assert len(next_question(server)[1]) == QUESTION_BYTES_MAX
    with pytest.raises(QueryError, match="question of 1,052,673 bytes: it takes 1,052,672"):
        client.send(bytes(QUESTION_BYTES_MAX + 1))


def test_an_answer_too_large_is_not_sent_and_said_to_be(server, client, caplog):
    client.send(b"question")
    asker, _ = next_question(server)
    assert not server.reply(asker, bytes(FRAME_BYTES_MAX + 1))
    assert "more than a frame may have" in caplog.text
    assert server.reply(asker, bytes(FRAME_BYTES_MAX))
    assert len(next_answer(client)[1]) == FRAME_BYTES_MAX


def test_a_question_too_large_ends_the_connection(server, client):
    client.socket.send_multipart((bytes(8), bytes(QUESTION_BYTES_MAX + 65)))
    assert not server.socket.poll(300)
    with QueryClient(server.endpoint) as other:  # and nobody else's
        assert other.socket.poll(WAIT_MS, zmq.POLLOUT)
        other.send(b"question")
        assert next_question(server)[1] == b"question"


def test_an_endpoint_that_is_taken(server):
    with pytest.raises(MisuseError, match="cannot open query port at"):
        QueryServer(server.endpoint)


@pytest.mark.parametrize("endpoint", ["nonsense", "tcp://", "tcp://127.0.0.1:port"])
def test_endpoints_that_are_none(endpoint):
    with pytest.raises(MisuseError):
        QueryServer(endpoint)
    with pytest.raises(MisuseError):
        QueryClient(endpoint)


def test_who_waits_for_long_hears_once_that_a_server_is_silent(server, client, caplog):
    for _ in range(2):
        with pytest.raises(QueryError):
            client.ask(b"?", 2_100)
    (told,) = [one.getMessage() for one in caplog.records]
    assert told == f"no answer from {server.endpoint} for 2 s: it is waited for, 2 s in all"
