"""A link that asks a source: what it has asked for is for one incarnation of the peer."""

from __future__ import annotations

import asyncio

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Links, PeerStarted, SequenceLimits

from ...simulation.worlds import in_world


class Numbers:
    """As many as are asked for, up to a thousand."""

    is_empty = False
    last_was_urgent = False

    def __init__(self) -> None:
        self.asked = 0

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        if self.asked == 1000:
            return None
        self.asked += 1
        return b"%d" % (self.asked - 1)


def test_a_payload_without_capacity_is_not_sent_to_the_next_incarnation() -> None:
    # It was taken for the one before, which was to count it, answer it, and had given credit for it.
    source, begins, came = Numbers(), [], []

    def started(peer: str, report: PeerStarted) -> None:
        begins.append((source.asked, report.dropped))

    async def a(process: Process) -> None:
        limits = SequenceLimits(max_frames=4)
        async with Links(
            "a", process.network, on_payload=lambda *_: None, on_peer=started, rng=process.rng, limits=limits
        ) as links:
            links.open("b", "b:1", source=source)
            await asyncio.Event().wait()

    async def b(process: Process) -> None:
        got: list[int] = []
        came.append(got)
        async with Links(
            "b", process.network, on_payload=lambda _, payload: got.append(int(payload)), rng=process.rng
        ) as links:
            links.open("a", None)
            await links.listen("b:1")
            await asyncio.Event().wait()

    async def main(world: World) -> None:
        world.process("a", a).start()
        second = world.process("b", b)
        second.start()
        await world.until(lambda: source.asked > 20, 5.0, "the first payloads")
        second.pause(1.0)  # four are under way, and there is no capacity for a fifth
        await asyncio.sleep(0.5)
        second.crash()
        came[0] = tuple(came[0])  # what is under way reaches the dead process when the world ends
        second.start()
        await world.until(lambda: len(begins) == 2 and bool(came[1]), 9.0, "the second incarnation")

    in_world(main)
    [(_, nothing), (asked, dropped)] = begins
    before, after = came
    assert nothing == 0
    assert 0 < asked < 1000
    assert after[0] == asked, "what was asked for before is lost with the one it was for"
    assert len(before) + dropped == asked
