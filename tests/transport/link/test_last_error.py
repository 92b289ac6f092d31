"""What a link says of why there is no connection; and a peer that listens elsewhere now."""

from __future__ import annotations

from aiostorm.testing import SimClock

from ..parts import MemoryNetwork, Process
from .test_links import paired


async def test_no_listener_or_no_answer(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a:
        link = a.open("b", "b")
        assert link.last_error == ""
        await sim_clock.run_until(lambda: link.last_error != "")
        assert link.last_error == "no process listens at b"
        network.weather.cut_off.add("b")
        await sim_clock.run_until(lambda: link.last_error != "no process listens at b")
        assert link.last_error == "no answer within 5 s"
        link.abort()


async def test_the_last_error_is_why_the_last_connection_ended(sim_clock: SimClock) -> None:
    async with paired() as pair:
        await sim_clock.run_until(lambda: pair.ab.established and pair.ba.established)
        assert pair.ab.last_error == pair.ba.last_error == ""
        pair.network.weather.cut_off.add("b")
        await sim_clock.run_until(lambda: not pair.ab.established)
        assert pair.ab.last_error == "no data from the peer for 3 s"
        pair.network.weather.cut_off.clear()
        await sim_clock.run_until(lambda: pair.ab.established)
        pair.network.cut()
        await sim_clock.run_until(lambda: not pair.ab.established)
        assert "is over" in pair.ab.last_error


async def test_another_process_answers(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("c", network) as c:
        await c.listen("b")
        c.open("a", None)
        link = a.open("b", "b")
        await sim_clock.run_until(lambda: link.last_error != "")
        assert "another process answers in the place of b" in link.last_error
        link.abort()


async def test_a_dial_that_nothing_answers_is_ended_by_another_address(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("b", network) as b:
        await b.listen("there")
        b.open("a", None)
        network.weather.cut_off.add("here")
        link = a.open("b", "here")
        await sim_clock.advance(1)
        assert not link.established
        a.redial("b", "there")
        await sim_clock.advance(0.2)
        assert link.established


async def test_a_peer_that_listens_elsewhere_now_is_dialled_there_at_once(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with Process("a", network) as a, Process("b", network) as b:
        await b.listen("there")
        link, back = a.open("b", "here"), b.open("a", None)
        await sim_clock.advance(60)
        dialled = len(network.dialled)
        b.redial("a", "nowhere")  # it is the other who dials
        a.redial("unknown", "there")
        a.redial("b", "there")
        await sim_clock.advance(0.02)
        assert link.established
        assert back.established
        assert network.dialled[dialled:] == [(sim_clock.monotonic() - 0.02, "there")]
        network.cut()
        await sim_clock.advance(5)
        assert link.established
        assert {address for _, address in network.dialled[dialled:]} == {"there"}
