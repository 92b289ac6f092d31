"""The store in memory, in virtual time: every client's story, and clients that are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiostorm.cluster.coordination import (
    HOLDER,
    LEADER,
    Create,
    DeposedError,
    MemoryStore,
    Put,
    SessionLostError,
    UnavailableError,
    campaign,
    leader,
)
from aiostorm.cluster.coordination.memory import MemoryBackend
from aiostorm.cluster.coordination.polled import POLL_S, open_polled
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ...simulation.cluster.ways import Ways
from ...simulation.worlds import in_world
from .scenarios import STORIES, Open


@pytest.mark.parametrize("story", STORIES)
async def test_every_story(story: Callable[[Open], Awaitable[None]]) -> None:
    store = MemoryStore(LoopClock())
    await story(store.client)
    assert not store.tree.sessions


async def test_a_client_that_is_cut_off_is_suspended_and_goes_on_if_it_is_back_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore(LoopClock())
    async with store.client(session_s=3) as client:
        await client.commit([Create("/a"), Create("/e", ephemeral=True)])
        store.away = True
        assert await client.status_other_than("connected") == "suspended"
        with pytest.raises(UnavailableError):
            await client.get("/a")
        await asyncio.sleep(600)  # no client reaches the store: none decides
        assert client.status == "suspended"
        # Time went on in the store, too: the session has ended, as soon as a client asks.
        store.away = False
        assert await client.status_other_than("suspended") == "lost"
        with pytest.raises(SessionLostError):
            await client.commit([Put("/a", b"")])
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"], "not with each question"


async def test_a_short_absence_has_no_consequence() -> None:
    store = MemoryStore(LoopClock())
    async with store.client(session_s=3) as client:
        await client.commit([Create("/e", ephemeral=True)])
        for _ in range(20):
            store.away = True
            await asyncio.sleep(1.5)
            assert client.status == "suspended"
            store.away = False
            await asyncio.sleep(1.5)
            assert client.status == "connected"
        assert await client.get("/e") is not None


async def test_a_leader_that_was_cut_off_writes_nothing_when_it_is_back() -> None:
    store, clock = MemoryStore(LoopClock()), LoopClock()
    backend: MemoryBackend = store.backend()
    async with open_polled(backend, clock, "a store", session_s=3) as first, store.client(session_s=3) as second:
        term = await campaign(first, b"one")
        await term.commit([Create("/plan", b"of one")])
        over = asyncio.create_task(term.over())
        backend.cut_off = True
        began_s = clock.monotonic()
        later = await campaign(second, b"two")
        assert 2 - POLL_S <= clock.monotonic() - began_s <= 3 + POLL_S
        await later.commit([Put("/plan", b"of two")])
        assert not over.done(), "it does not know"
        with pytest.raises(UnavailableError):
            await term.commit([Put("/plan", b"of one again")])
        backend.cut_off = False
        with pytest.raises((DeposedError, SessionLostError)):
            await term.commit([Put("/plan", b"of one again")])
        async with asyncio.timeout(1):
            await over
        assert await leader(second) == b"two"
        assert (await second.get("/plan")).value == b"of two"  # type: ignore[union-attr]


async def test_a_candidate_that_was_chosen_without_an_answer_leads() -> None:
    store = MemoryStore(LoopClock())
    backend = store.backend()
    async with open_polled(backend, LoopClock(), "a store") as first, store.client() as second:
        await first.commit([Create(LEADER)])
        backend.unanswered = True
        with pytest.raises(UnavailableError):
            await first.commit([Create(HOLDER, b"one", ephemeral=True), Put(LEADER, b"one")])
        backend.unanswered = False
        assert await leader(second) == b"one"
        async with asyncio.timeout(1):
            term = await campaign(first, b"one")
        await term.commit([Create("/plan", b"of one")])


def test_a_cancelled_commit_takes_no_news_along() -> None:
    """The store tells each change once: what comes when its caller does not wait any more must not be lost."""

    async def story(world: World) -> None:
        store = MemoryStore(LoopClock())
        ways = Ways(world, store, at_once=False, delay_s=0.1)

        async def program(process: Process) -> None:
            async with ways.client(process) as client, store.client(session_s=3600) as other:
                for index in range(60):
                    watch = await client.watch(f"/of-other-{index}")
                    commit = asyncio.create_task(client.commit([Create(f"/own-{index}")]))
                    await other.commit([Create(f"/of-other-{index}")])
                    await asyncio.sleep(index / 120)
                    commit.cancel()
                    await asyncio.gather(commit, return_exceptions=True)
                    async with asyncio.timeout(2):
                        await watch.changed()
                    watch.close()

        client = world.process("client", program)
        client.start()
        await world.until(lambda: not client.runs, 120, "all changes")

    in_world(story)


async def test_a_cancelled_campaign_does_not_lead_later() -> None:
    store = MemoryStore(LoopClock())
    async with store.client() as first, store.client() as second:
        term = await campaign(first, b"one")
        waiting = asyncio.create_task(campaign(second, b"two"))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await term.resign()
        await asyncio.sleep(1)
        assert await leader(second) is None


@pytest.mark.parametrize("session_s", [0.3, 4000, float("nan")])
async def test_a_session_of_another_length_is_refused(session_s: float) -> None:
    with pytest.raises(ValueError, match=r"a session lasts 0\.4 to 3600 s"):
        async with MemoryStore(LoopClock()).client(session_s=session_s):
            pass
