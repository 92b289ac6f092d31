"""Lines that carry little: large frames come, once, over one connection, and a line that is dead is still found out."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Links

from ..simulation.worlds import in_world

RATE_BYTES_S = 30_000.0
VALUE = bytes(range(250)) * 800  # 200 kB: 6.7 s of the line, and a silent peer is dead after 3 s


class Heard:
    """What has come at b, and how often the two were connected."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.connections = 0
        self.took_s = 0.0


def over(rate_bytes_s: float, payloads: list[bytes], *, cut_after_s: float = 0.0, bound_s: float = 100.0) -> Heard:
    """Send them from a to b, over a line that carries so much a second in each direction."""
    heard = Heard()

    async def story(world: World) -> None:
        async def receiver(process: Process) -> None:
            links = Links("b", process.network, on_payload=lambda peer, p: heard.payloads.append(p), rng=process.rng)
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
        await world.until(lambda: len(heard.payloads) == len(payloads), bound_s, "all of it")
        heard.took_s = world.now_s - begun_s
        heard.connections = world.switch.counts["connections"]
        for name in ("a", "b"):
            world.processes[name].kill("has done its work")

    in_world(story)
    return heard


def test_a_value_that_takes_longer_than_a_silence_may_last_comes(caplog: pytest.LogCaptureFixture) -> None:
    """Before bytes counted as life: 60 s, 17 connections, nothing delivered."""
    caplog.set_level(logging.WARNING)
    values = [VALUE, VALUE[::-1], VALUE]
    heard = over(RATE_BYTES_S, values)
    assert heard.payloads == values
    assert heard.connections == 1
    assert heard.took_s < 2.5 * sum(map(len, values)) / RATE_BYTES_S
    slow = [record for record in caplog.records if "the line to a is slow" in record.getMessage()]
    assert len(slow) == 1, "said once"


def test_many_small_ones_come_over_a_slow_line_too() -> None:
    values = [bytes([n]) * 2000 for n in range(100)]
    heard = over(RATE_BYTES_S, values)
    assert heard.payloads == values
    assert heard.connections == 1


def test_a_line_that_carries_nothing_any_more_is_given_up() -> None:
    heard = over(RATE_BYTES_S, [VALUE] * 3, cut_after_s=2.0)
    assert heard.payloads == [VALUE] * 3
    assert heard.connections > 1
