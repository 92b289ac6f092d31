"""Lines that carry little: large frames come, once, over one connection, and a line that is dead is still found out."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Link, Links

from ...simulation.worlds import in_world

RATE_BYTES_S = 30_000.0
VALUE = bytes(range(250)) * 800  # 200 kB: 6.7 s of the line, and a silent peer is dead after 3 s


class Received:
    """What has come at b, and how often the two were connected."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.connections = 0
        self.took_s = 0.0


def over(
    rate_bytes_s: float,
    payloads: list[bytes],
    *,
    cut_after_s: float = 0.0,
    break_every_s: float = 0.0,
    bound_s: float = 100.0,
) -> Received:
    """Send them from a to b, over a line that carries so much a second in each direction."""
    received = Received()

    async def story(world: World) -> None:
        async def receiver(process: Process) -> None:
            links = Links("b", process.network, on_payload=lambda peer, p: received.payloads.append(p), rng=process.rng)
            async with links:
                await links.listen("b:1")
                links.open("a", None)
                await asyncio.sleep(bound_s)

        async def sender(process: Process) -> None:
            async with Links("a", process.network, on_payload=lambda peer, p: None, rng=process.rng) as links:
                link = links.open("b", "b:1")
                for payload in payloads:
                    await link.send(payload)
                await asyncio.sleep(bound_s)

        for source, target in (("a", "b"), ("b", "a")):
            world.switch.path(source, target).rate_bytes_s = rate_bytes_s
        for name, program in (("b", receiver), ("a", sender)):
            world.process(name, program).start()
        if cut_after_s:
            path = world.switch.path("b", "a")
            world.call_at(cut_after_s, partial(setattr, path, "cut", True))
            await asyncio.sleep(cut_after_s + 8)
            path.cut = False
        begun_s = world.now_s
        if break_every_s:
            breaks(world, break_every_s)
        await world.until(lambda: len(received.payloads) == len(payloads), bound_s, "all of it")
        received.took_s = world.now_s - begun_s
        received.connections = world.switch.counts["connections"]
        for name in ("a", "b"):
            world.processes[name].kill("has done its work")

    in_world(story)
    return received


def breaks(world: World, every_s: float) -> None:
    """From now on, again and again."""
    world.call_at(world.now_s + every_s, break_once, world, every_s)


def break_once(world: World, every_s: float) -> None:
    world.switch.break_between("a", "b")
    breaks(world, every_s)


def test_a_value_that_takes_longer_than_a_silence_may_last_comes(caplog: pytest.LogCaptureFixture) -> None:
    """Before bytes counted as a sign of life: 60 s, 17 connections, nothing delivered."""
    caplog.set_level(logging.WARNING)
    values = [VALUE, VALUE[::-1], VALUE]
    received = over(RATE_BYTES_S, values)
    assert received.payloads == values
    assert received.connections == 1
    assert received.took_s < 2.5 * sum(map(len, values)) / RATE_BYTES_S
    slow = [record for record in caplog.records if "the line to b is slow: it carries" in record.getMessage()]
    assert len(slow) == 1, "said once"


def test_large_values_come_steadily_when_the_connection_breaks_every_4_s() -> None:
    """A frame of 200 kB never came whole in 4 s: now a new connection goes on at the first part that is missing."""
    values = [VALUE, VALUE[::-1], VALUE]
    received = over(RATE_BYTES_S, values, break_every_s=4.0)
    assert received.payloads == values
    assert received.connections >= 5
    assert received.took_s < 3.0 * sum(map(len, values)) / RATE_BYTES_S


def test_a_line_of_a_tenth_of_that_delivers_too() -> None:
    received = over(RATE_BYTES_S / 10, [VALUE[:60_000]] * 2, break_every_s=7.0)
    assert received.payloads == [VALUE[:60_000]] * 2


class Mixed:
    """A source: one large value that is not urgent, and every 0.5 s one that is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.large: list[bytes] = [VALUE]
        self.urgent: list[bytes] = []
        self.last_was_urgent = False
        self.link: Link

    @property
    def is_empty(self) -> bool:
        return not (self.large or self.urgent)

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        self.last_was_urgent = bool(self.urgent)
        if self.urgent:
            return self.urgent.pop(0)
        return None if urgent or not self.large else self.large.pop()

    def say(self) -> None:
        self.urgent.append(b"%f" % self.world.now_s)
        self.link.wake()
        self.world.call_at(self.world.now_s + 0.5, self.say)


def test_urgent_payloads_go_between_the_parts_of_a_large_value() -> None:
    waited_s: list[float] = []
    came: list[bytes] = []

    async def story(world: World) -> None:
        source = Mixed(world)

        def got(peer: str, payload: bytes) -> None:
            if len(payload) < 100:
                waited_s.append(world.now_s - float(payload))
            else:
                came.append(payload)

        async def receiver(process: Process) -> None:
            async with Links("b", process.network, on_payload=got, rng=process.rng) as links:
                await links.listen("b:1")
                links.open("a", None)
                await asyncio.sleep(100)

        async def sender(process: Process) -> None:
            async with Links("a", process.network, on_payload=lambda peer, p: None, rng=process.rng) as links:
                source.link = links.open("b", "b:1", source=source)
                process.loop.call_later(1.0, source.say)
                await asyncio.sleep(100)

        world.switch.path("a", "b").rate_bytes_s = RATE_BYTES_S
        for name, program in (("b", receiver), ("a", sender)):
            world.process(name, program).start()
        await world.until(lambda: bool(came), 20.0, "the large value")
        for name in ("a", "b"):
            world.processes[name].kill("has done its work")

    in_world(story)
    assert came == [VALUE]
    assert len(waited_s) >= 8, "they came while it was on its way"
    assert max(waited_s) < 3.5, "two frames are under way, of a second each, and one is being sent"


def test_many_small_ones_come_over_a_slow_line_too() -> None:
    values = [bytes([n]) * 2000 for n in range(100)]
    received = over(RATE_BYTES_S, values)
    assert received.payloads == values
    assert received.connections == 1


def test_a_line_that_carries_nothing_any_more_is_given_up() -> None:
    received = over(RATE_BYTES_S, [VALUE] * 3, cut_after_s=2.0)
    assert received.payloads == [VALUE] * 3
    assert received.connections > 1
