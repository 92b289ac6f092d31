"""The record of a parent, and the errors that outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from aiostorm.cluster.coordination import Coordination, Create, MemoryStore, NoNodeError, Put, UnavailableError
from aiostorm.cluster.coordination.polled import open_polled
from aiostorm.cluster.nimbus import (
    ERRORS,
    PARENTS,
    ErrorEntry,
    ErrorsRecord,
    ParentRecord,
    make_folders,
    pack,
    path_of,
    unpack,
)
from aiostorm.cluster.submitted.registration import ERRORS_S, MOST_ERRORS, Registration
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ...simulation.cluster.ways import Ways
from ...simulation.worlds import in_world

FIRST = ParentRecord("s", 1, 4711, "host", "STARTING")
PATH = path_of(PARENTS, "words")


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Coordination, Coordination]]:
    store = MemoryStore(LoopClock())
    async with store.client() as one, store.client() as other:
        await make_folders(one)
        yield one, other


async def stored(client: Coordination) -> list[ErrorEntry]:
    path = path_of(ERRORS, "words")
    node = await client.get(path)
    return [] if node is None else list(unpack(ErrorsRecord, path, node.value).errors)


async def test_one_process_is_the_parent() -> None:
    async with two() as (one, other):
        first, second = Registration(one, "words", FIRST), Registration(other, "words", replace(FIRST, pid=1))
        assert await first.register(lambda record: False)
        assert not await second.register(lambda record: False)
        await first.remove()
        assert await second.register(lambda record: False)
        await second.remove()
        await second.remove()
        assert await one.get(PATH) is None


async def test_a_process_that_has_ended_is_replaced_before_its_session_ends() -> None:
    async with two() as (one, other):
        first, second = Registration(one, "words", FIRST), Registration(other, "words", replace(FIRST, pid=1))
        assert await first.register(lambda record: False)
        assert await second.register(lambda record: record == FIRST)
        await one.close()  # its session ends, and takes nothing of the second one along
        node = await other.get(PATH)
        assert node is not None
        assert unpack(ParentRecord, PATH, node.value).pid == 1


async def test_one_that_was_made_without_an_answer_is_there() -> None:
    store = MemoryStore(LoopClock())
    backend = store.backend()
    async with open_polled(backend, LoopClock(), "a store") as one:
        await make_folders(one)
        first = Registration(one, "words", FIRST)
        backend.unanswered = True
        with pytest.raises(UnavailableError):  # it cannot even be read who is there
            await first.register(lambda record: False)
        await store.backend().apply([Create(PATH, pack(FIRST), ephemeral=True)], backend.session)
        backend.unanswered = False
        again = Registration(one, "words", replace(FIRST, generation=2))
        assert await again.register(lambda record: False)
        node = await one.get(PATH)
        assert node is not None
        assert unpack(ParentRecord, PATH, node.value).generation == 2


def test_two_tasks_that_write_at_once_lose_nothing() -> None:
    async def story(world: World) -> None:
        ways = Ways(world, MemoryStore(LoopClock()), at_once=False, delay_s=0.1)

        async def program(process: Process) -> None:
            async with ways.client(process) as client:
                await make_folders(client)
                first = Registration(client, "words", FIRST)
                assert await first.register(lambda record: False)
                await asyncio.gather(
                    first.update(lambda before: replace(before, generation=2)),
                    first.update(lambda before: replace(before, state="ACTIVE")),
                )
                assert first.record == replace(FIRST, generation=2, state="ACTIVE")
                node = await client.get(PATH)
                assert node is not None
                assert unpack(ParentRecord, PATH, node.value) == first.record

        parent = world.process("parent", program)
        parent.start()
        await world.until(lambda: not parent.runs, 60, "the end of the parent")

    in_world(story)


async def test_only_changes_are_written_and_all_watches_see_them() -> None:
    async with two() as (one, other):
        first = Registration(one, "words", FIRST)
        await first.register(lambda record: False)
        watch = await other.watch(PARENTS)
        await first.update(lambda before: FIRST)
        node = await other.get(PATH)
        assert node is not None
        assert node.version == 0
        await first.update(lambda before: replace(before, state="ACTIVE", degraded="x" * 100_000))
        async with asyncio.timeout(1):
            await watch.changed()
        node = await other.get(PATH)
        assert node is not None
        assert node.version == 1
        await first.remove()
        with pytest.raises(NoNodeError):
            await first.update(lambda before: FIRST)


async def test_errors_are_kept_for_the_next_parent_and_written_now_and_then() -> None:
    async with two() as (one, other):
        first = Registration(one, "words", FIRST)
        await first.register(lambda record: False)
        first.add_errors([ErrorEntry(1.0, "split[2] execute", "ValueError: 1")])
        await first.write_errors(100.0)
        first.add_errors([ErrorEntry(2.0, "split[2] execute", "ValueError: 2")])
        await first.write_errors(100.0 + ERRORS_S / 2)
        assert [error.at_s for error in await stored(other)] == [1.0]
        await first.write_errors(100.0 + ERRORS_S)
        await first.remove()
        second = Registration(other, "words", FIRST)
        await second.register(lambda record: False)
        second.add_errors([ErrorEntry(3.0, "", "x")])
        await second.write_errors(0.0, at_once=True)
        assert [error.at_s for error in await stored(one)] == [1.0, 2.0, 3.0]


async def test_what_cannot_be_read_is_replaced() -> None:
    async with two() as (one, other):
        first = Registration(one, "words", FIRST)
        first.add_errors([ErrorEntry(1.0, "", "x")])
        await first.write_errors(0.0)
        await one.commit([Put(path_of(ERRORS, "words"), b"{")])
        await first.register(lambda record: False)
        first.add_errors([ErrorEntry(2.0, "", "y")])
        await first.write_errors(0.0, at_once=True)
        assert [error.at_s for error in await stored(other)] == [2.0]


@pytest.mark.parametrize("text", ["x" * 5_000, "\U0001f4a5" * 1_000, "\x00" * 1_000, ""])
async def test_the_last_errors_always_fit(text: str) -> None:
    async with two() as (one, other):
        registration = Registration(one, "words", FIRST)
        registration.add_errors(ErrorEntry(float(n), text[:500], text) for n in range(3 * MOST_ERRORS))
        await registration.write_errors(0.0)
        kept = await stored(other)
        assert kept[-1].at_s == 3 * MOST_ERRORS - 1
        assert 30 <= len(kept) <= MOST_ERRORS
