"""Mailbox: lanes with waiting. No wake-up and no accepted message is lost, whatever is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.actors import EMPTY, Mailbox, MailboxClosedError
from aiostorm.testing import VirtualTimeLoop

from .sample_actors import steps


async def test_the_reader_is_woken_by_data_by_control_and_by_wake() -> None:
    box = Mailbox(4)
    for wake in (lambda: box.offer("d"), lambda: box.post("c"), lambda: box.force("f"), box.wake):
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(box.wait())
            await steps(2)
            assert box.reader_waits
            wake()
            assert not box.reader_waits
            await reader
        while box.take() is not EMPTY:
            pass


async def test_wait_returns_at_once_when_there_is_a_message_and_wait_next_does_not() -> None:
    box = Mailbox(4)
    box.offer("d")
    await box.wait()
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(box.wait_next())
        await steps(2)
        assert not reader.done()
        box.post("c")


async def test_put_waits_for_free_capacity() -> None:
    box = Mailbox(2)
    await box.put(1)
    await box.put(2)
    async with asyncio.TaskGroup() as group:
        sender = group.create_task(box.put(3))
        await steps(2)
        assert not sender.done()
        assert [box.take(), box.take()] == [1, 2]
        await sender
    assert box.take() == 3


async def test_put_into_a_closed_mailbox_says_why_it_is_closed() -> None:
    box = Mailbox(1)
    await box.put(1)
    async with asyncio.TaskGroup() as group:
        sender = group.create_task(_refusal(box))
        await steps(2)
        box.close("the shop is shut")
        assert await sender == "the shop is shut"
    with pytest.raises(MailboxClosedError, match="the shop is shut"):
        await box.put(2)
    assert not box.offer(2)
    assert not box.force(2)
    assert box.take() == 1


async def test_a_piece_that_can_never_fit_is_an_error_and_not_a_wait() -> None:
    box = Mailbox(10)
    with pytest.raises(ValueError, match="smaller pieces"):
        await box.put("boulder", 11)
    while box.offer("x"):
        pass
    with pytest.raises(ValueError, match="smaller pieces"):
        await box.put("boulder", box.gate.max_piece + 1)


async def test_a_mailbox_has_one_reader() -> None:
    box = Mailbox(1)
    box.claim("actor /a")
    with pytest.raises(ValueError, match="/a"):
        box.claim("actor /b")


async def _refusal(box: Mailbox) -> str:
    try:
        await box.put("refused")
    except MailboxClosedError as error:
        return str(error)
    return "accepted"


# A script of what the world does, one step each: senders put, some are cancelled, the reader takes, the mailbox closes.
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 3)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("step"), st.integers(1, 2)),
        st.tuples(st.just("close"), st.just(0)),
    ),
    max_size=40,
)


@given(capacity=st.integers(3, 8), actions=ACTIONS)
def test_every_put_ends_and_what_was_accepted_is_there(capacity: int, actions: list[tuple[str, int]]) -> None:
    async def work() -> None:
        box = Mailbox(capacity, 0.7, 0.3)
        puts: list[asyncio.Task[None]] = []
        taken: list[int] = []
        for what, number in actions:
            if what == "put":
                weight = min(number, box.gate.max_piece)
                puts.append(asyncio.create_task(box.put(len(puts), weight)))
            elif what == "cancel" and puts:
                puts[number % len(puts)].cancel()
            elif what == "take":
                taken += [item for _ in range(number) if (item := box.take()) is not EMPTY]
            elif what == "close":
                box.close()
            else:
                await steps(number)
        await steps()
        waiting = [put for put in puts if not put.done()]
        assert len(waiting) == box.parked
        assert not waiting or not box.gate.is_open
        for put in waiting:
            put.cancel()
        await asyncio.gather(*puts, return_exceptions=True)
        assert box.parked == 0
        while (item := box.take()) is not EMPTY:
            taken.append(item)
        accepted = {i for i, put in enumerate(puts) if not put.cancelled() and put.exception() is None}
        assert taken == sorted(set(taken))
        assert accepted <= set(taken)
        # Cancelled in the very step in which there was free capacity: the message is in, and the sender does not know.
        assert all(puts[i].cancelled() for i in set(taken) - accepted)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())


@given(arrivals=st.lists(st.sampled_from(["offer", "post", "wake", "step", "read"]), max_size=30))
def test_no_wake_up_is_lost(arrivals: list[str]) -> None:
    async def work() -> None:
        box = Mailbox(100)
        got: list[Any] = []

        async def read() -> None:
            while True:
                while (item := box.take()) is not EMPTY:
                    got.append(item)
                await box.wait()

        reader = asyncio.create_task(read())
        sent = 0
        for what in arrivals:
            if what == "offer":
                box.offer(sent)
            elif what == "post":
                box.post(sent)
            elif what == "wake":
                box.wake()
            else:
                await asyncio.sleep(0)
            sent += what in ("offer", "post")
        await steps()
        assert sorted(got) == list(range(sent))
        assert box.reader_waits
        reader.cancel()
        await asyncio.wait((reader,))
        assert not box.reader_waits

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
