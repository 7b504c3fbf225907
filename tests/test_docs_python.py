"""The programs of docs/python.md run, on a cluster."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import dafka
from tests.support.served_registry import served_registry

PAGE = (Path(__file__).parent.parent / "docs/python.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

pytestmark = pytest.mark.net


@pytest.fixture
def place(tmp_path, free_ports):
    """A function that runs a program of the page on a cluster, and returns its names."""
    first = free_ports(4)
    tower, query = (f"tcp://127.0.0.1:{port}" for port in (first, first + 2))

    def run(needle, registry=""):
        (program,) = (one for one in PROGRAMS if needle in one)
        code = program.replace("tcp://127.0.0.1:5556", tower)
        code = code.replace("http://127.0.0.1:8081", registry)
        names = {"__name__": "example"}
        exec(compile(code.replace("tcp://127.0.0.1:5558", query), "python.md", "exec"), names)
        return names

    with dafka.Tower(tower), dafka.Store(tmp_path / "store", tower, query=query):
        yield run, tower


def test_there_are_no_other_programs():
    assert len(PROGRAMS) == 9


def test_threads(place, capsys):
    place[0]("consumer.batches()")
    out = capsys.readouterr().out
    assert all(value in out for value in ("b'1'", "b'2'", "b'3'"))


def test_keys_and_values(place, capsys):
    place[0]("as_json")
    assert capsys.readouterr().out == "b'monday' {'tea': 3}\n"


def test_what_cannot_be_deserialized(place, capsys):
    run, tower = place
    with dafka.Producer(tower) as producer:
        for value in (b"1", b"two", b"3"):
            producer.send("counts", value)
    run("DeserializationError")
    first, refused, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("1", "3")
    assert refused.startswith("value of the record with sequence 1 of topic 'counts' of address ")
    assert refused.endswith("b'two'")


def test_a_registry(place, capsys, free_ports):
    with served_registry(free_ports(1)) as url:
        place[0]("AvroSerializer", registry=url)
    assert capsys.readouterr().out == "{'item': 'tea'}\n"


def test_tables(place, capsys):
    run, tower = place
    with dafka.Producer(tower) as producer:
        producer.send_many("orders", [b"1", b"2"])
    names = run("to_arrow")
    assert capsys.readouterr().out == f"2 {names['table'].column_names}\n"
    cells = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == names["table"].column_names


def test_nothing_answers(place, capsys):
    with pytest.warns(dafka.ConnectionWarning):
        place[0]("UnreachableError")
    assert capsys.readouterr().out.startswith(
        "cannot reach the cluster within 5 s: nothing answers"
    )


def test_coroutines(place, capsys):
    place[0]("async def main()")
    delivery, *values = capsys.readouterr().out.splitlines()
    assert delivery.startswith("Delivery(topic='orders', address='")
    assert values == ["b'one'", "b'two'", "b'three'"]


def test_a_web_application(place):
    run, tower = place
    with TestClient(run("FastAPI")["app"]) as client:
        answers = [client.post("/orders", content=f"{number}") for number in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    with dafka.Consumer(tower, "orders") as consumer:
        records = [consumer.poll(60) for _ in range(3)]
    assert [record.value for record in records] == [b"0", b"1", b"2"]
    partitions = [record.address for record in records]
    assert [answer.json()["partition"] for answer in answers] == partitions


def test_handlers_of_topics(place):
    run, tower = place
    names = run("def subscriber")

    async def scenario():
        serving = asyncio.create_task(names["run"]())
        async with dafka.AsyncProducer(tower) as producer:
            await producer.send("orders", b"tea")
        async with dafka.AsyncConsumer(tower, "bills") as consumer:
            assert (await consumer.poll(60)).value == b"bill for tea"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), 120))
