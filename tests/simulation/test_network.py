"""The simulated network does what the seam allows, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import (
    MAX_FRAME_BYTES,
    ConnectionLostError,
    FrameTooLargeError,
    NetworkError,
)

from .pairs import Pair, pair_test
from .worlds import in_world

SEEDS = range(8)
FRAMES = [b"%d" % i for i in range(300)]


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_arrive_as_they_were_sent_without_faults(seed: int) -> None:
    async def work(pair: Pair) -> None:
        for frame in FRAMES:
            pair.ends["a"].send(frame)
            pair.ends["b"].send(frame)
        await asyncio.sleep(1)
        assert pair.received == {"a": FRAMES, "b": FRAMES}
        assert pair.world.switch.counts == {"connections": 1, "sent": 600, "received": 600}

    pair_test(work, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connection_breaks_at_a_frame_and_all_before_it_have_arrived(seed: int) -> None:
    async def work(pair: Pair) -> None:
        pair.world.switch.path("a", "b").breaks = 0.05
        for frame in FRAMES:
            pair.ends["a"].send(frame)
            pair.ends["b"].send(frame)
        await asyncio.sleep(2)
        received = pair.received["b"]
        assert 0 <= len(received) < len(FRAMES)
        assert received == FRAMES[: len(received)]
        back = pair.received["a"]
        assert back == FRAMES[: len(back)], "the other direction broke anywhere"
        assert pair.ends["a"].writable
        await asyncio.sleep(601)
        assert set(pair.lost) == {"a", "b"}

    pair_test(work, seed)


def test_frames_in_flight_are_lost_from_any_point_on() -> None:
    counts = set()
    for seed in range(30):

        async def work(pair: Pair) -> None:
            for frame in FRAMES[:20]:
                pair.ends["a"].send(frame)
            pair.world.switch.break_between("a", "b")
            await asyncio.sleep(601)
            received = pair.received["b"]
            assert received == FRAMES[: len(received)]
            counts.add(len(received))

        pair_test(work, seed)
    assert 0 in counts
    assert len(counts) > 4


@pytest.mark.parametrize("seed", SEEDS)
def test_one_direction_may_be_silent_while_the_other_works(seed: int) -> None:
    async def work(pair: Pair) -> None:
        assert pair.world.switch.silence_between("a", "b") == 1
        for frame in FRAMES[:10]:
            pair.ends["a"].send(frame)
            pair.ends["b"].send(frame)
        await asyncio.sleep(4)
        assert pair.received == {"a": FRAMES[:10], "b": []}
        assert not pair.lost
        await asyncio.sleep(125)
        assert set(pair.lost) == {"a"}, "TCP gives up after a while, and cannot say so to the other side"

    pair_test(work, seed)


def test_new_connections_are_refused_and_those_that_exist_continue() -> None:
    async def work(pair: Pair) -> None:
        path = pair.world.switch.path("a", "b")
        path.refuses = 1.0
        with pytest.raises(NetworkError, match="refused"):
            await pair.a.call(lambda: pair.a.network.connect("b:1"))
        pair.ends["a"].send(b"1")
        await asyncio.sleep(1)
        assert pair.received["b"] == [b"1"]
        path.refuses = 0.0
        await pair.a.call(lambda: pair.a.network.connect("b:1"))

    pair_test(work)


def test_a_frame_that_is_too_large_is_refused_and_the_connection_is_as_it_was() -> None:
    async def work(pair: Pair) -> None:
        end = pair.ends["a"]
        with pytest.raises(FrameTooLargeError, match="cut it up"):
            end.send(bytes(MAX_FRAME_BYTES + 1))
        end.send(bytes(MAX_FRAME_BYTES))
        await asyncio.sleep(1)
        assert [len(frame) for frame in pair.received["b"]] == [MAX_FRAME_BYTES]

    pair_test(work)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_close_arrives_after_the_frames_under_way(seed: int) -> None:
    async def work(pair: Pair) -> None:
        for frame in FRAMES:
            pair.ends["a"].send(frame)
        pair.ends["a"].close()
        pair.ends["a"].close()
        await asyncio.sleep(1)
        assert pair.received["b"] == FRAMES
        assert set(pair.lost) == {"a", "b"}
        for name in "ab":
            assert pair.ends[name].writable
            with pytest.raises(ConnectionLostError):
                pair.ends[name].send(b"")
            assert pair.world.switch.connections(name) == 0

    pair_test(work, seed)


def test_frames_that_arrived_before_the_close_are_received() -> None:
    async def work(pair: Pair) -> None:
        for frame in FRAMES:
            pair.ends["a"].send(frame)
        pair.ends["a"].close()
        await asyncio.sleep(1)
        assert [await pair.b.call(pair.ends["b"].receive) for _ in FRAMES] == FRAMES
        for _ in range(2):
            with pytest.raises(ConnectionLostError):
                await pair.b.call(pair.ends["b"].receive)

    pair_test(work, b_reads=False)


def test_the_peer_of_a_crashed_process_may_or_may_not_notice() -> None:
    """It learns of it soon (an end, or a reset), or not until it sends to the next incarnation."""
    soon = 0
    for seed in range(40):

        async def work(pair: Pair) -> None:
            nonlocal soon
            pair.b.crash()
            await asyncio.sleep(1)
            soon += "a" in pair.lost
            pair.b.start()
            if "a" not in pair.lost:
                pair.ends["a"].send(b"")
                await asyncio.sleep(25)
            assert "a" in pair.lost

        pair_test(work, seed)
    assert 20 <= soon < 40


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_path_closes_no_connection_at_once_and_its_frames_arrive_late_or_it_breaks(seed: int) -> None:
    async def work(pair: Pair) -> None:
        switch = pair.world.switch
        switch.set_cut(switch.path("a", "b"), True)
        for frame in FRAMES[:10]:
            pair.ends["a"].send(frame)
            pair.ends["b"].send(frame)
        await asyncio.sleep(4)
        assert pair.received == {"a": FRAMES[:10], "b": []}
        assert not pair.lost
        switch.set_cut(switch.path("a", "b"), False)
        await asyncio.sleep(1)
        assert pair.received["b"] in ([], FRAMES[:10])

    pair_test(work, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sender_into_a_cut_gives_up_and_the_peer_learns_it_later(seed: int) -> None:
    async def work(pair: Pair) -> None:
        switch = pair.world.switch
        switch.set_cut(switch.path("a", "b"), True)
        pair.ends["a"].send(b"")
        await asyncio.sleep(130)
        assert set(pair.lost) == {"a"}
        switch.set_cut(switch.path("a", "b"), False)
        pair.ends["b"].send(b"are you there?")
        await asyncio.sleep(30)
        assert set(pair.lost) == {"a", "b"}

    pair_test(work, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sender_notices_a_half_open_connection(seed: int) -> None:
    async def work(pair: Pair) -> None:
        assert pair.world.switch.halve_between("a", "b") == 1
        await asyncio.sleep(50)
        assert set(pair.lost) == {"a"}
        pair.ends["b"].send(b"")
        await asyncio.sleep(25)
        assert set(pair.lost) == {"a", "b"}

    pair_test(work, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broken_connection_is_closed_on_both_sides(seed: int) -> None:
    async def work(pair: Pair) -> None:
        assert pair.world.switch.break_between("b", "a") == 1
        await asyncio.sleep(601)
        assert set(pair.lost) == {"a", "b"}
        assert pair.world.switch.break_between("b", "a") == 0

    pair_test(work, seed)


def test_frames_wait_for_a_frozen_process() -> None:
    async def work(pair: Pair) -> None:
        pair.b.pause(20)
        for frame in FRAMES:
            pair.ends["a"].send(frame)
        await asyncio.sleep(19)
        assert pair.received["b"] == []
        await asyncio.sleep(2)
        assert pair.received["b"] == FRAMES

    pair_test(work)


def test_connect_is_refused_without_a_listener_and_waits_or_is_refused_behind_a_cut() -> None:
    waited: list[float] = []
    for seed in range(20):

        async def run(world: World) -> None:
            done: list[str] = []

            async def client(process: Process) -> None:
                for address in ("b:1", "c"):
                    try:
                        await process.network.connect(address)
                    except NetworkError as error:
                        done.append(str(error))

            a = world.process("a", client)
            world.switch.set_cut(world.switch.path("c", "a"), True)
            a.start()
            begin_s = world.now_s
            await world.until(lambda: not a.alive, 60, "its end")
            waited.append(world.now_s - begin_s)
            assert done[0] == "b:1: no listener there"
            assert done[1] in ("c: timed out", "c: no way there")

        in_world(run, seed)
    assert min(waited) < 1 < 10 < max(waited) < 33


def test_a_connect_that_is_cancelled_leaves_nothing_behind() -> None:
    async def run(world: World) -> None:
        accepted: list[object] = []

        async def server(process: Process) -> None:
            await process.network.listen("b", accepted.append)
            await asyncio.sleep(100)

        async def client(process: Process) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1e-6):
                    await process.network.connect("b")
            await asyncio.sleep(100)

        for name, main in (("b", server), ("a", client)):
            world.process(name, main).start()
        await asyncio.sleep(1)
        assert accepted == []
        assert world.switch.connections("a") == world.switch.connections("b") == 0

    in_world(run)


def test_listeners() -> None:
    async def run(world: World) -> None:
        async def server(process: Process) -> None:
            network = process.network
            chosen = {(await network.listen("b:0", lambda _: None)).address for _ in range(3)}
            assert len(chosen) == 3
            assert all(address.startswith("b:") for address in chosen)
            first = await network.listen("b", lambda _: None)
            with pytest.raises(NetworkError, match="already"):
                await network.listen("b", lambda _: None)
            with pytest.raises(NetworkError, match="begins with its name"):
                await network.listen("a", lambda _: None)
            first.close()
            first.close()
            await network.listen("b", lambda _: None)

        b = world.process("b", server)
        for _ in range(2):  # the next incarnation finds every address free
            b.start()
            await asyncio.sleep(1)
            assert not b.alive
            assert not world.switch.listeners

    in_world(run)


def test_an_accept_that_raises_closes_the_connection_and_the_listener_goes_on() -> None:
    async def run(world: World) -> None:
        complaints: list[str] = []
        lost = 0

        def accept(_: object) -> None:
            raise ValueError("no")

        async def server(process: Process) -> None:
            process.loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
            await process.network.listen("b", accept)
            await asyncio.sleep(100)

        async def client(process: Process) -> None:
            nonlocal lost
            for _ in range(2):
                connection = await process.network.connect("b")
                with pytest.raises(ConnectionLostError):
                    await connection.receive()
                lost += 1

        for name, main in (("b", server), ("a", client)):
            world.process(name, main).start()
            await asyncio.sleep(1)
        assert complaints == ["accept of b failed"] * 2
        assert lost == 2

    in_world(run)
