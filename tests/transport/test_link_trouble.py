"""What a link says of why there is no connection; and a peer that listens elsewhere now."""

from __future__ import annotations

from aiostorm.testing import SimClock

from .parts import MemoryNetwork, Process
from .test_links import paired


async def test_nobody_listens_or_nobody_answers(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a:
        link = a.open("b", "b")
        assert link.trouble == ""
        await sim_clock.run_until(lambda: link.trouble != "")
        assert link.trouble == "nobody listens at b"
        network.weather.cut_off.add("b")
        await sim_clock.run_until(lambda: link.trouble != "nobody listens at b")
        assert link.trouble == "no answer within 5 s"
        link.abort()


async def test_what_ended_the_last_connection(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await sim_clock.run_until(lambda: pair.ab.established and pair.ba.established)
        assert pair.ab.trouble == pair.ba.trouble == ""
        pair.network.weather.cut_off.add("b")
        await sim_clock.run_until(lambda: not pair.ab.established)
        assert pair.ab.trouble == "not a word for 3 s"
        pair.network.weather.cut_off.clear()
        await sim_clock.run_until(lambda: pair.ab.established)
        pair.network.cut()
        await sim_clock.run_until(lambda: not pair.ab.established)
        assert "is over" in pair.ab.trouble


async def test_somebody_else_answers(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("c", network) as c:
        await c.listen("b")
        c.open("a", None)
        link = a.open("b", "b")
        await sim_clock.run_until(lambda: link.trouble != "")
        assert "it is not b who answers" in link.trouble
        link.abort()


async def test_a_peer_that_listens_elsewhere_now_is_dialled_there_at_once(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("b", network) as b:
        await b.listen("there")
        link, back = a.open("b", "here"), b.open("a", None)
        await sim_clock.advance(60)
        dialled = len(network.dialled)
        b.listens("a", "nowhere")  # it is the other who dials
        a.listens("nobody", "there")
        a.listens("b", "there")
        await sim_clock.advance(0.02)
        assert link.established
        assert back.established
        assert network.dialled[dialled:] == [(sim_clock.monotonic() - 0.02, "there")]
        network.cut()
        await sim_clock.advance(5)
        assert link.established
        assert {address for _, address in network.dialled[dialled:]} == {"there"}
