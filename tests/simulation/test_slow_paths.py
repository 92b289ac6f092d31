"""Paths that are slow or late, and buffers that are full, in the simulated network."""

from __future__ import annotations

import asyncio

from aiostorm.transport import (
    MAX_BUFFERED_BYTES,
)

from .pairs import Pair, pair_test

FRAMES = [b"%d" % i for i in range(300)]


def test_a_narrow_path_takes_time_for_each_byte_and_shows_the_bytes_that_have_arrived() -> None:
    async def work(pair: Pair) -> None:
        path = pair.world.switch.path("a", "b")
        path.rate_bytes_s, path.narrowed_bytes_s = 50_000.0, 10_000.0
        pair.ends["a"].send(bytes(100_000))
        await asyncio.sleep(5)
        assert pair.received["b"] == []
        assert 45_000 < pair.ends["b"].received_bytes < 55_000
        await asyncio.sleep(6)
        assert len(pair.received["b"]) == 1

    pair_test(work)


def test_bytes_on_a_narrow_path_arrive_sooner_once_it_is_wider() -> None:
    async def work(pair: Pair) -> None:
        path = pair.world.switch.path("a", "b")
        path.narrowed_bytes_s = 1_000.0
        for size in (30_000, 20_000):
            pair.ends["a"].send(bytes(size))
        await asyncio.sleep(10)
        arrived_bytes = pair.ends["b"].received_bytes
        assert 9_000 < arrived_bytes < 11_000
        path.narrowed_bytes_s = 20_000.0
        path.widen()
        assert pair.ends["b"].received_bytes >= arrived_bytes
        await asyncio.sleep(1.8)
        assert [len(frame) for frame in pair.received["b"]] == [30_000]
        path.narrowed_bytes_s = 0.0
        path.widen()
        pair.ends["a"].send(b"last")
        await asyncio.sleep(0.5)
        assert [len(frame) for frame in pair.received["b"]] == [30_000, 20_000, 4]
        assert pair.ends["b"].received_bytes >= arrived_bytes

    pair_test(work)


def test_lag_keeps_the_order() -> None:
    async def work(pair: Pair) -> None:
        pair.world.switch.path("a", "b").lag_s = 5.0
        for frame in FRAMES:
            pair.ends["a"].send(frame)
        await asyncio.sleep(1)
        assert len(pair.received["b"]) < len(FRAMES)
        await asyncio.sleep(5)
        assert pair.received["b"] == FRAMES

    pair_test(work)


def test_a_buffer_fills_while_the_peer_does_not_read_and_drains_when_it_does() -> None:
    async def work(pair: Pair) -> None:
        end = pair.ends["a"]
        sent = 0
        while end.writable:
            end.send(bytes(10_000))
            sent += 1
            await asyncio.sleep(0.1)
        assert MAX_BUFFERED_BYTES <= sent * 10_000 <= 2 * MAX_BUFFERED_BYTES + 40_000  # both sides' buffers
        drained = pair.a.spawn(end.drained(), "drained")
        await asyncio.sleep(60)
        assert not drained.done()
        for _ in range(sent):
            await pair.b.call(pair.ends["b"].receive)
        await asyncio.sleep(1)
        assert drained.done()
        assert end.writable

    pair_test(work, b_reads=False)
