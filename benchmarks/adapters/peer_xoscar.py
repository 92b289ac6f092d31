"""xoscar: actors in a pool of one process (this one). W1: a split actor and four count actors; W4; W6.

All references are local ones: a call is the method's, behind the actor's lock; there is no mailbox. W4 between two
processes: a pool with a sub-process, in which the actor is; a tell waits until the other side has taken it.

A message travels alone unless the caller gathers calls for `batch`, which is what xoscar offers for that: W1 with
`batched` hands on a hundred sentences at a time, and their words of one counter in one call. Messages are not
acknowledged beyond the call that waits for its result; nothing survives the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import xoscar as mo

from ..cells import Outcome
from ..clocking import Stopwatch, run_in
from ..w1 import Corpus, corpus
from ..w3 import check
from ..w4 import check_reply
from ..w6 import Arrivals, Pace

ADDRESS = "127.0.0.1:0"
COUNT_TASKS = 4
BATCH = 100


class Count(mo.Actor):
    """Counts words."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    @mo.extensible
    def add(self, word: str) -> None:
        self.counts[word] = self.counts.get(word, 0) + 1

    def table(self) -> dict[str, int]:
        return self.counts


class Split(mo.Actor):
    """Hands the words of sentences to the counters, each to the one of its hash."""

    def __init__(self, counters: list[Any]) -> None:
        self.counters = counters

    @mo.extensible
    async def split(self, sentence: str) -> None:
        for word in sentence.split():
            await self.counters[hash(word) % COUNT_TASKS].add(word)

    @split.batch
    async def split(self, args_list: list[tuple[Any, ...]], kwargs_list: list[dict[str, Any]]) -> list[None]:
        calls: list[list[Any]] = [[] for _ in range(COUNT_TASKS)]
        delays = [counter.add.delay for counter in self.counters]
        for (sentence,) in args_list:
            for word in sentence.split():
                at = hash(word) % COUNT_TASKS
                calls[at].append(delays[at](word))
        for counter, mine in zip(self.counters, calls, strict=True):
            await counter.add.batch(*mine)
        return [None] * len(args_list)


class Answer(mo.Actor):
    """Answers with one more."""

    def ask(self, number: int) -> int:
        return number + 1


class Receiver(mo.Actor):
    """Adds up."""

    def __init__(self) -> None:
        self.count = self.total = 0

    def add(self, number: int) -> None:
        self.count += 1
        self.total += number

    def seen(self) -> tuple[int, int]:
        return self.count, self.total


class Identity(mo.Actor):
    """Hands on what it gets, without waiting for what becomes of it."""

    def __init__(self, following: Any) -> None:
        self.following = following

    async def take(self, number: int, emitted_s: float) -> None:
        await self.following.take.tell(number, emitted_s)


class Arrive(mo.Actor):
    """The end of the way."""

    def __init__(self) -> None:
        self.arrivals = Arrivals()

    def take(self, number: int, emitted_s: float) -> None:
        self.arrivals.add(number, emitted_s)

    def all_of_it(self) -> Arrivals:
        return self.arrivals


async def _in_pool(work: Callable[[str], Awaitable[Outcome]]) -> Outcome:
    pool = await mo.create_actor_pool(ADDRESS, n_process=0)
    async with pool:
        return await work(pool.external_address)


async def _actor(address: str, uid: str, kind: type[mo.Actor], *arguments: Any) -> Any:
    """A new actor; gives a local reference to it (what `create_actor` gives goes by the pool, ten times as slow)."""
    await mo.create_actor(kind, *arguments, address=address, uid=uid)
    return await mo.actor_ref(address, uid)


def word_count(size: int, loop: str, *, batched: bool = True) -> Outcome:
    """W1, until every counter has answered."""
    given = corpus(size)
    return run_in(loop, _in_pool(lambda address: _word_count(given, batched, address)))  # type: ignore[no-any-return]


async def _word_count(given: Corpus, batched: bool, address: str) -> Outcome:
    counters = [await _actor(address, f"count-{n}", Count) for n in range(COUNT_TASKS)]
    split = await _actor(address, "split", Split, counters)
    with Stopwatch() as watch:
        if batched:
            for at in range(0, len(given.sentences), BATCH):
                await split.split.batch(*[split.split.delay(line) for line in given.sentences[at : at + BATCH]])
        else:
            for sentence in given.sentences:
                await split.split(sentence)
        tables = [await counter.table() for counter in counters]
    given.check({word: count for table in tables for word, count in table.items()})
    return given.outcome(watch)


def ask(size: int, loop: str) -> Outcome:
    """W4: round trips, one after the other."""
    return run_in(loop, _in_pool(lambda address: _ask(size, address)))  # type: ignore[no-any-return]


async def _ask(size: int, address: str) -> Outcome:
    actor = await _actor(address, "answer", Answer)
    with Stopwatch() as watch:
        for number in range(size):
            check_reply(number, await actor.ask(number))
    return Outcome(size, watch.wall_s, watch.cpu_s)


def tell(size: int, loop: str) -> Outcome:
    """W4: messages to one actor, without waiting for a reply."""
    return run_in(loop, _in_pool(lambda address: _tell(size, address)))  # type: ignore[no-any-return]


async def _tell(size: int, address: str) -> Outcome:
    actor = await _actor(address, "receiver", Receiver)
    with Stopwatch() as watch:
        for number in range(size):
            await actor.add.tell(number)
        while (seen := await actor.seen())[0] < size:  # noqa: ASYNC110 (an actor answers one call at a time)
            await asyncio.sleep(0)
    check(size, *seen)
    return Outcome(size, watch.wall_s, watch.cpu_s)


def ask_far(size: int, loop: str, at_a_time: int = 1) -> Outcome:
    """W4 between two processes: round trips, from so many asyncio tasks."""
    return run_in(loop, _in_two(lambda address: _ask_far(size, address, at_a_time)))  # type: ignore[no-any-return]


def tell_far(size: int, loop: str, senders: int = 1) -> Outcome:
    """W4 between two processes: messages to one actor, from so many asyncio tasks."""
    return run_in(loop, _in_two(lambda address: _tell_far(size, address, senders)))  # type: ignore[no-any-return]


async def _in_two(work: Callable[[str], Awaitable[Outcome]]) -> Outcome:
    pool = await mo.create_actor_pool(ADDRESS, n_process=1)
    async with pool:
        return await work(pool.external_address)


async def _far_actor(address: str, uid: str, kind: type[mo.Actor]) -> Any:
    return await mo.create_actor(kind, address=address, uid=uid, allocate_strategy=mo.allocate_strategy.ProcessIndex(1))


async def _ask_far(size: int, address: str, at_a_time: int) -> Outcome:
    actor = await _far_actor(address, "answer", Answer)

    async def asks(first: int) -> None:
        for number in range(first, size, at_a_time):
            check_reply(number, await actor.ask(number))

    with Stopwatch() as watch:
        await asyncio.gather(*(asks(first) for first in range(at_a_time)))
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _tell_far(size: int, address: str, senders: int) -> Outcome:
    actor = await _far_actor(address, "receiver", Receiver)

    async def tells(first: int) -> None:
        for number in range(first, size, senders):
            await actor.add.tell(number)

    with Stopwatch() as watch:
        await asyncio.gather(*(tells(first) for first in range(senders)))
        while (seen := await actor.seen())[0] < size:  # noqa: ASYNC110
            await asyncio.sleep(0)
    check(size, *seen)
    return Outcome(size, watch.wall_s, watch.cpu_s)


def latency(size: int, loop: str) -> Outcome:
    """W6."""
    return run_in(loop, _in_pool(lambda address: _latency(size, address)))  # type: ignore[no-any-return]


async def _latency(size: int, address: str) -> Outcome:
    end = await _actor(address, "third", Arrive)
    second = await _actor(address, "second", Identity, end)
    first = await _actor(address, "first", Identity, second)
    pace = Pace(size)
    with Stopwatch() as watch:
        while not pace.over:
            for number in await pace.due():
                await first.take.tell(number, time.perf_counter())
        while len((arrivals := await end.all_of_it()).numbers) < size:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return arrivals.outcome(size, watch, pace)
