"""Links over a network in memory whose connections break; all in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.testing import SimClock, VirtualTimeLoop
from aiostorm.transport import (
    MAX_BUFFERED_BYTES,
    Link,
    LinkClosedError,
    Links,
    LinkSupersededError,
    LinkTimings,
    NetworkError,
    ProtocolError,
    SequenceLimits,
)
from aiostorm.transport.link.headers import LinkAck, LinkData, LinkHello, decode
from aiostorm.transport.link.pending_connections import MAX_PENDING

from ...tries import examples
from ..parts import SMALL, MemoryNetwork, Process


class Pair:
    """a dials, b is dialled."""

    def __init__(self, network: MemoryNetwork, a: Process, b: Process) -> None:
        self.network, self.a, self.b = network, a, b
        self.ab: Link
        self.ba: Link


@contextlib.asynccontextmanager
async def paired(network: MemoryNetwork | None = None, **options: object) -> AsyncIterator[Pair]:
    network = network or MemoryNetwork()
    async with Process("a", network, **options) as a, Process("b", network, **options) as b:
        pair = Pair(network, a, b)
        await b.listen("b")
        pair.ab, pair.ba = a.open("b", "b"), b.open("a", None)
        yield pair


def numbered(count: int, begin: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(begin, begin + count)]


async def send_all(link: Link, payloads: list[bytes]) -> None:
    for payload in payloads:
        await link.send(payload)


# -- what a link is for ------------------------------------------------------------------------------------------------


async def test_payloads_go_both_ways_in_order(sim_clock: SimClock) -> None:
    async with paired() as pair:
        async with asyncio.TaskGroup() as group:
            group.create_task(send_all(pair.ab, numbered(1000)))
            group.create_task(send_all(pair.ba, numbered(1000)))
        await sim_clock.run_until(lambda: len(pair.a.got) == len(pair.b.got) == 1000)
        assert pair.a.got == pair.b.got == numbered(1000)
        assert pair.ab.established
        assert [peer for peer, _ in pair.a.started] == ["b"]
        assert pair.b.started[0][1].incarnation == pair.a.incarnation


async def storm(seed: int, breaks: float, jitter_s: float, cut_every_s: float) -> None:
    chance = random.Random(seed)
    network = MemoryNetwork(seed)
    network.weather.breaks, network.weather.jitter_s = breaks, jitter_s
    async with paired(network, limits=SMALL) as pair, asyncio.TaskGroup() as group:
        senders = [group.create_task(send_all(link, numbered(150))) for link in (pair.ab, pair.ba)]
        while not all(sender.done() for sender in senders):
            await asyncio.sleep(chance.random() * cut_every_s)
            network.cut()
        network.weather.breaks = 0.0
        await SimClock().run_until(lambda: not (pair.ab.unacked_frames or pair.ba.unacked_frames))
    assert pair.a.got == numbered(150)
    assert pair.b.got == numbered(150)
    assert len(pair.a.started) == len(pair.b.started) == 1


@settings(max_examples=examples(15))
@given(
    seed=st.integers(0, 2**32),
    breaks=st.floats(0, 0.1),
    jitter_s=st.sampled_from([0.0, 0.01, 0.3]),
    cut_every_s=st.sampled_from([0.5, 5.0, 60.0]),
)
def test_all_frames_arrive_once_and_in_order_over_breaking_connections(
    seed: int, breaks: float, jitter_s: float, cut_every_s: float
) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(storm(seed, breaks, jitter_s, cut_every_s))


async def test_two_runs_of_one_seed_are_one_run() -> None:
    runs = []
    for _ in range(2):
        began_s = asyncio.get_running_loop().time()
        await storm(7, 0.05, 0.3, 2.0)
        runs.append(asyncio.get_running_loop().time() - began_s)
    assert runs[0] == pytest.approx(runs[1], abs=1e-6)


# -- connections -------------------------------------------------------------------------------------------------------


async def test_a_peer_that_is_away_is_dialled_again_ever_more_slowly(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a:
        link = a.open("b", "b")
        await sim_clock.advance(60)
        times = [at_s for at_s, _ in network.dialled]
        waits = [later - earlier for earlier, later in itertools.pairwise(times)]
        delay_s = 0.05
        for wait_s in waits:
            assert delay_s / 2 <= wait_s - network.weather.delay_s <= delay_s + 1e-9
            delay_s = min(2 * delay_s, 2.0)
        assert len({round(wait_s, 6) for wait_s in waits[-10:]}) == 10, "jitter"
        async with Process("b", network) as b:
            b.open("a", None)
            await b.listen("b")
            await link.send(b"at last")
            await sim_clock.run_until(lambda: b.got == [b"at last"])


async def test_an_idle_link_lives_on_one_connection(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await sim_clock.advance(3600)
        assert len(pair.network.dialled) == 1
        for connection in pair.network.open:
            kinds = [type(decode(frame)) for frame in connection.sent]
            assert set(kinds) == {LinkHello, LinkAck}
            assert 1_790 <= kinds.count(LinkAck) <= 1_810, "one in 2 s"


async def test_a_peer_that_is_cut_off_is_given_up_after_three_seconds_and_nothing_is_lost(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await pair.ab.send(b"before")
        await sim_clock.advance(0.1)
        pair.network.weather.cut_off.add("b")
        await pair.ab.send(b"during")
        await pair.ba.send(b"during")
        await sim_clock.advance(2.5)
        assert pair.ab.established, "2 s are a heartbeat"
        await sim_clock.advance(0.5)
        assert not pair.ab.established
        assert not pair.ba.established
        await sim_clock.advance(600)
        pair.network.weather.cut_off.clear()
        await sim_clock.run_until(lambda: pair.b.got == [b"before", b"during"] and pair.a.got == [b"during"])


async def test_the_later_of_two_connections_counts(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await sim_clock.advance(1)
        # The dialler has lost its connection; the side that is dialled has not noticed.
        near, far = pair.network.open
        near.end()
        await pair.ab.send(b"over the new one")
        await sim_clock.advance(0.2)
        assert pair.b.got == [b"over the new one"]
        assert far.over


async def test_a_slow_network_fills_the_window_and_not_the_memory(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    network.weather.delay_s = 0.5
    limits = SequenceLimits(max_bytes=4 * 1024 * 1024)
    async with paired(network, limits=limits) as pair:
        await send_all(pair.ab, [bytes(16_000)] * 1000)
        await sim_clock.run_until(lambda: not pair.ab.unacked_frames)
    assert len(pair.b.got) == 1000
    assert network.most_buffered <= MAX_BUFFERED_BYTES + 16_100


# -- sending -----------------------------------------------------------------------------------------------------------


async def test_senders_wait_for_capacity_in_the_order_of_the_calls(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network, limits=SMALL) as a:
        link = a.open("b", "b")
        for payload in numbered(8):
            await link.send(payload)
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(link.send(payload)) for payload in numbered(8, begin=8)]
            await sim_clock.advance(10)
            assert not any(sender.done() for sender in waiting)
            assert not link.offer(b"too many")
            waiting[3].cancel()
            async with Process("b", network) as b:
                b.open("a", None)
                await b.listen("b")
                await sim_clock.run_until(lambda: len(b.got) == 15)
                assert b.got == [payload for payload in numbered(16) if payload != b"11"]
                assert link.offer(b"fits again")
                await sim_clock.run_until(lambda: b.got[-1] == b"fits again")


async def test_a_connection_that_lives_carries_each_payload_once(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await send_all(pair.ab, numbered(500))
        await sim_clock.advance(10)
        sent = [decode(frame) for connection in pair.network.open for frame in connection.sent]
        assert len([frame for frame in sent if isinstance(frame, LinkData)]) == 500


# -- incarnations ------------------------------------------------------------------------------------------------------


async def test_a_restarted_peer_is_reported(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("b", network) as b:
        link = b.open("a", None)
        await b.listen("b")
        async with Process("a", network) as a:
            await a.open("b", "b").send(b"first incarnation")
            await sim_clock.run_until(lambda: b.got == [b"first incarnation"])
        await link.send(b"for the first incarnation")
        async with Process("a", network) as again:
            await again.open("b", "b").send(b"second incarnation")
            await sim_clock.run_until(lambda: len(b.got) == 2)
            await link.send(b"for the second incarnation")
            await sim_clock.run_until(lambda: again.got == [b"for the second incarnation"])
        assert [started.incarnation for _, started in b.started] == [a.incarnation, again.incarnation]
        assert [started.dropped for _, started in b.started] == [0, 1]


async def test_a_process_ends_when_another_takes_its_name(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("b", network) as b:
        b.open("a", None)
        await b.listen("b")
        frozen = Process("a", network)
        with pytest.raises(ExceptionGroup) as caught:
            await _frozen(frozen, network, sim_clock)
        assert caught.group_contains(LinkSupersededError)
        assert b.started[0][1].incarnation == frozen.incarnation
        assert len(b.started) == 2


async def _frozen(frozen: Process, network: MemoryNetwork, sim_clock: SimClock) -> None:
    async with frozen:
        link = frozen.open("b", "b")
        await sim_clock.advance(1)
        async with Process("a", network) as later:
            later.open("b", "b")
            await sim_clock.advance(1)
        try:
            await sim_clock.advance(10)
        finally:
            with pytest.raises(LinkSupersededError):
                await link.send(b"")


async def test_an_error_in_what_payloads_are_given_to_is_not_lost(sim_clock: SimClock) -> None:
    network = MemoryNetwork()

    def choke(peer: str, payload: bytes) -> None:
        raise ProtocolError("an error of ours, by chance of that name")

    async with Process("a", network) as a:
        link = a.open("b", "b")
        choking = Links("b", network.seen_by("b"), on_payload=choke)
        with pytest.raises(ExceptionGroup) as caught:
            await _fed(choking, link, sim_clock)
        assert caught.group_contains(ProtocolError)
        await sim_clock.advance(1)
        assert link.unacked_frames in (0, 1)


async def _fed(choking: Links, link: Link, sim_clock: SimClock) -> None:
    async with choking:
        choking.open("a", None)
        await choking.listen("b")
        await link.send(b"too much")
        await sim_clock.advance(10)


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_leaving_the_block_drains(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    network.weather.breaks = 0.05
    async with Process("b", network) as b:
        b.open("a", None)
        await b.listen("b")
        async with Process("a", network, timings=LinkTimings(drain_s=60.0)) as a:
            link = a.open("b", "b")
            await send_all(link, numbered(100))
        assert b.got == numbered(100)
        assert link.unacked_frames == 0
        with pytest.raises(LinkClosedError):
            await link.send(b"late")
        with pytest.raises(LinkClosedError):
            link.offer(b"late")


async def test_draining_has_a_limit_and_waiting_senders_get_an_error(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network, limits=SMALL) as a, asyncio.TaskGroup() as group:
        link = a.open("b", "b")
        await send_all(link, numbered(8))
        waiting = [group.create_task(_refused(link)) for _ in range(2)]
        await sim_clock.advance(1)
        began_s = sim_clock.monotonic()
        assert await link.close() == 8
        assert sim_clock.monotonic() - began_s == pytest.approx(5.0)
        await sim_clock.settle()
        assert all(task.done() for task in waiting)
        assert await link.close() == 8


async def _refused(link: Link) -> None:
    with pytest.raises(LinkClosedError):
        await link.send(b"x")


async def _fails(a: Process) -> None:
    async with a:
        await a.open("b", "b").send(b"never acked")
        raise KeyError("mine")


@pytest.mark.parametrize("when_s", [0.0, 0.0005, 0.02, 3.0])
async def test_a_link_that_has_no_connection_ends_at_once(sim_clock: SimClock, when_s: float) -> None:
    network = MemoryNetwork()
    if when_s == 0.02:
        network.weather.cut_off.add("b")  # it dials, and gets neither an answer nor an error
    async with Process("a", network) as a:
        a.open("b", "b")
        a.open("0", None)
        await sim_clock.advance(when_s)
        began_s = sim_clock.monotonic()
    assert sim_clock.monotonic() == began_s


async def test_after_an_exception_links_end_at_once(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    began_s = sim_clock.monotonic()
    with pytest.raises(ExceptionGroup) as caught:
        await _fails(Process("a", network))
    assert caught.group_contains(KeyError)
    assert sim_clock.monotonic() == began_s


async def test_a_link_that_was_closed_can_be_opened_anew(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await pair.ab.send(b"1")
        await sim_clock.advance(1)
        assert await pair.ab.close() == 0
        await sim_clock.settle()
        again = pair.a.open("b", "b")
        with pytest.raises(ValueError, match="already"):
            pair.a.open("b", "b")
        assert again is not pair.ab


# -- who connects ------------------------------------------------------------------------------------------------------


async def test_unexpected_peers_are_refused(sim_clock: SimClock, caplog: pytest.LogCaptureFixture) -> None:
    network = MemoryNetwork()
    async with Process("m", network) as m:
        m.open("a", None)
        m.open("z", "z")
        await m.listen("m")
        for greeting in (b"unknown", b"z", b"m", b"\xff\n", b""):
            connection = await network.seen_by("x").connect("m")
            connection.send(LinkHello(9, 1, greeting=greeting).encode())
            await sim_clock.advance(0.01)
            assert connection.over, greeting  # type: ignore[attr-defined]
        connection = await network.seen_by("x").connect("m")
        connection.send(b"\x01\x01 noise")
        await sim_clock.advance(0.01)
        assert connection.over  # type: ignore[attr-defined]
        assert "no link here is dialled by 'unknown'" in caplog.text


async def test_a_peer_without_a_hello_has_five_seconds(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("m", network) as m:
        await m.listen("m")
        silent = [await network.seen_by("x").connect("m") for _ in range(MAX_PENDING + 3)]
        await sim_clock.advance(0.01)
        assert [connection.over for connection in silent] == [False] * MAX_PENDING + [True] * 3  # type: ignore[attr-defined]
        await sim_clock.advance(5.1)
        assert all(connection.over for connection in silent)  # type: ignore[attr-defined]
        last = await network.seen_by("x").connect("m")
    await sim_clock.advance(0.01)
    assert last.over  # type: ignore[attr-defined]


async def test_another_at_the_address_is_not_taken_for_the_peer(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("c", network) as c:
        c.open("a", None)
        await c.listen("b")
        link = a.open("b", "b")
        assert link.offer(b"for b")
        await sim_clock.advance(10)
        assert c.got == []
        assert not link.established
        assert "another process answers in the place of b" in caplog.text
        assert len(network.dialled) < 15, "the backoff is kept"
        await link.close()


async def test_an_address_is_listened_at_once(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("b", network) as b:
        assert await a.listen("here") == "here"
        with pytest.raises(NetworkError, match="taken"):
            await b.listen("here")
        with pytest.raises(NetworkError, match="listens already"):
            await a.listen("there")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129, "ä"])
async def test_names(name: str) -> None:
    with pytest.raises(ValueError, match="a name is"):
        Process(name, MemoryNetwork())
    async with Process("a", MemoryNetwork()) as a:
        for peer in (name, "a"):
            with pytest.raises(ValueError, match=r"a name is|itself"):
                a.open(peer, "there")


@pytest.mark.parametrize(
    "timings",
    [{"heartbeat_s": 3.0}, {"heartbeat_s": 0.0}, {"first_retry_s": 3.0}, {"first_retry_s": 0.0}, {"drain_s": -1.0}],
)
def test_timings_that_cannot_work_are_refused(timings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="0 <"):
        LinkTimings(**timings)
