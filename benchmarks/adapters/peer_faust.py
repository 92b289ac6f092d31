"""faust-streaming: agents on in-memory channels, no broker. W1: a split agent and four count agents; W6: three agents.

Only the agents are started: the rest of a faust worker (consumer, tables and their change logs, rebalancing) needs a
broker. So counts are kept in dicts, words go to the agent of their hash, and nothing is acknowledged. A channel is a
bounded queue; a message travels alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import faust

from ..cells import Outcome
from ..clocking import Stopwatch, run_in
from ..w1 import Corpus, corpus
from ..w6 import Arrivals, Pace

COUNT_TASKS = 4
CAPACITY = 1024


async def _with_app(work: Callable[[Any], Awaitable[Outcome]]) -> Outcome:
    app = faust.App("benchmark", broker="kafka://unused", store="memory://", stream_buffer_maxsize=CAPACITY)
    app.flow_control.resume()  # a worker does it once its broker has assigned partitions
    try:
        return await work(app)
    finally:
        for agent in app.agents.values():
            await agent.stop()


async def _start(app: Any, function: Callable[[Any], Any], name: str) -> Any:
    """An agent of that function at a channel of its own; gives the channel."""
    channel = app.channel(maxsize=CAPACITY)
    agent = app.agent(channel, name=name)(function)
    await agent.start()
    return channel


def word_count(size: int, loop: str) -> Outcome:
    """W1, until everything is counted."""
    given = corpus(size)
    return run_in(loop, _with_app(lambda app: _word_count(app, given)))  # type: ignore[no-any-return]


async def _word_count(app: Any, given: Corpus) -> Outcome:
    tables: list[dict[str, int]] = [{} for _ in range(COUNT_TASKS)]
    left = given.words
    everything = asyncio.Event()

    def counting(table: dict[str, int]) -> Any:
        async def count(words: AsyncIterator[str]) -> None:
            nonlocal left
            async for word in words:
                table[word] = table.get(word, 0) + 1
                left -= 1
                if not left:
                    everything.set()

        return count

    counters = [await _start(app, counting(table), f"count-{n}") for n, table in enumerate(tables)]

    async def split(sentences: AsyncIterator[str]) -> None:
        async for sentence in sentences:
            for word in sentence.split():
                await counters[hash(word) % COUNT_TASKS].send(value=word)

    channel = await _start(app, split, "split")
    with Stopwatch() as watch:
        for sentence in given.sentences:
            await channel.send(value=sentence)
        await everything.wait()
    given.check({word: count for table in tables for word, count in table.items()})
    return given.outcome(watch)


def latency(size: int, loop: str) -> Outcome:
    """W6."""
    return run_in(loop, _with_app(lambda app: _latency(app, size)))  # type: ignore[no-any-return]


async def _latency(app: Any, size: int) -> Outcome:
    arrivals = Arrivals()
    everything = asyncio.Event()

    async def arrive(tuples: AsyncIterator[tuple[int, float]]) -> None:
        async for number, emitted_s in tuples:
            arrivals.add(number, emitted_s)
            if len(arrivals.numbers) == size:
                everything.set()

    def handing_on(following: Any) -> Any:
        async def identity(tuples: AsyncIterator[tuple[int, float]]) -> None:
            async for one in tuples:
                await following.send(value=one)

        return identity

    third = await _start(app, arrive, "third")
    second = await _start(app, handing_on(third), "second")
    first = await _start(app, handing_on(second), "first")
    pace = Pace(size)
    with Stopwatch() as watch:
        while not pace.over:
            for number in await pace.due():
                await first.send(value=(number, time.perf_counter()))
        await everything.wait()
    return arrivals.outcome(size, watch, pace)
