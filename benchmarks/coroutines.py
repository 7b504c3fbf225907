"""What a pipeline's producer and consumer do, as coroutines beside which the loop has others."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.harness import cpu_seconds, rate, until_told
from benchmarks.pipeline import CHUNK, TOPIC, WARM_UP
from dafka import AsyncConsumer, AsyncProducer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def produce(pipe: Connection, tower: str, count: int, size: int, bulk: bool) -> None:
    """As `benchmarks.pipeline.produce`."""
    value = bytes(size)
    values = [value] * CHUNK

    async def producing() -> None:
        async with AsyncProducer(tower, batch_bytes_max=128 * 1024) as producer:
            until_told(pipe)
            for _ in range(WARM_UP):
                await producer.send(TOPIC, value)
            await producer.flush(60)
            pipe.send("warm")
            until_told(pipe)
            began, began_cpu = time.perf_counter(), cpu_seconds()
            if bulk:
                for _ in range(count // CHUNK):
                    await producer.send_many(TOPIC, values)
            else:
                for _ in range(count):
                    await producer.send(TOPIC, value)
            await producer.flush(120)
            pipe.send((rate(count, began), (cpu_seconds() - began_cpu) / count))
            until_told(pipe)

    asyncio.run(producing())


def consume(pipe: Connection, tower: str, count: int, bulk: bool, skip: int) -> None:
    """As `benchmarks.pipeline.consume`."""

    async def consuming() -> None:
        async with AsyncConsumer(tower, TOPIC) as consumer:
            records = aiter(consumer)
            pipe.send("up")
            for _ in range(skip):
                await anext(records)
            began, began_cpu = time.perf_counter(), cpu_seconds()
            left = count
            if bulk:
                async for batch in consumer.batches():
                    left -= len(batch.values())
                    if left <= 0:
                        break
            else:
                for _ in range(count):
                    await anext(records)
            pipe.send((rate(count, began), (cpu_seconds() - began_cpu) / count))
            until_told(pipe)

    asyncio.run(consuming())
