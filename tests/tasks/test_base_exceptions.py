"""What is no Exception (sys.exit, KeyboardInterrupt, …) fails its row; a second one fails the topology."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, LocalCluster, TopologyFailedError, bolt, spout
from aiostorm.tasks.exits import UserExitError, is_of_program
from aiostorm.testing import FixedSpout, Recorder, SimClock

from .parts import Does, Numbers, line, rows


class OutcomeError(BaseException):
    """As pytest's own: not an Exception."""


BAD: set[int] = set()
ERRORS = {"exit": SystemExit(3), "outcome": OutcomeError("no"), "interrupt": KeyboardInterrupt()}


def look(n: int, error: str = "exit") -> None:
    if n in BAD:
        raise ERRORS[error]


class Basic(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        look(tup["n"])


class Later(BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:
        look(tup["n"])


class Blocks(Basic):
    blocking = True


class Rich(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        look(tup["n"])
        self.collector.ack(tup)


@bolt
def function(n: int) -> None:
    look(n)


@bolt
async def later(n: int) -> None:
    look(n)


@bolt("n")
def generator_bolt(n: int) -> Iterator[int]:
    look(n)
    yield n


KINDS = [Basic, Later, Blocks, Rich, function, later, generator_bolt]


@pytest.fixture(autouse=True)
def _bad() -> Iterator[None]:
    """Python's own handler of Ctrl-C does not stand: as in a program that has handlers of its own."""
    BAD.clear()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_one_fails_its_row_and_no_other(local_cluster: LocalCluster, kind: Any) -> None:
    BAD.add(2)
    source = FixedSpout(rows(range(5)), "n")
    running = await local_cluster.submit("t", line(source, bolt=kind))
    await running.wait_finished()
    assert sorted(source.acked) == [0, 1, 3, 4]
    assert source.failed[2].component == "bolt"
    [report] = running.errors()
    assert (report.component, report.where) == ("bolt", "execute")
    assert "user code raised SystemExit(3), which does not end a process here" in str(report)


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_a_second_one_fails_the_topology(local_cluster: LocalCluster, kind: Any) -> None:
    BAD.update((2, 3))
    running = await local_cluster.submit("t", line(FixedSpout(rows(range(5)), "n"), bolt=kind))
    with pytest.raises(TopologyFailedError, match=r"bolt\[2\] was given up.*SystemExit\(3\)"):
        await running.wait_finished(timeout_s=20)
    await running.kill()


@pytest.mark.parametrize("error", ERRORS)
async def test_every_kind_of_error_fails_one_row(local_cluster: LocalCluster, error: str) -> None:
    BAD.add(0)
    source = FixedSpout(rows(range(2)), "n")
    running = await local_cluster.submit("t", line(source, bolt=Does(lambda tup, collector: look(tup["n"], error))))
    await running.wait_finished()
    assert source.acked == [1]
    [report] = running.errors()
    assert type(ERRORS[error]).__name__ in report.error


async def test_two_that_are_far_apart_fail_a_row_each(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    BAD.update((0, 1))
    source = Slow(3)
    running = await local_cluster.submit("t", line(source, bolt=Basic))
    await running.wait_finished()
    assert source.acked == [2]
    assert len(running.errors()) == 2


class Slow(Numbers):
    """One in a minute."""

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(60)
        super().next_tuple()


class Asks(Numbers):
    """Its first call ends in an exit."""

    def next_tuple(self) -> None:
        if BAD:
            BAD.pop()
            sys.exit("not now")
        super().next_tuple()


class RaisesInAck(Numbers):
    def ack(self, message_id: Any) -> None:
        super().ack(message_id)
        look(message_id)


class Opens(Numbers):
    def open(self, context: Any, collector: Any) -> None:
        super().open(context, collector)
        if BAD:
            BAD.pop()
            sys.exit("not now")


@pytest.mark.parametrize("kind", [Asks, RaisesInAck, Opens])
async def test_in_a_spout(local_cluster: LocalCluster, kind: type[Numbers]) -> None:
    BAD.add(2)
    source = kind(3)
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished()
    assert [report.component for report in running.errors()] == ["spout"]
    BAD.update((0, 1, 2))
    with pytest.raises(TopologyFailedError, match="SystemExit"):
        await (await local_cluster.submit("again", line(kind(3), sink=Recorder()))).wait_finished(20)


@spout(outputs="n")
def generator() -> Iterator[int]:
    yield 1
    raise OutcomeError


async def test_a_generator_cannot_be_called_again(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(generator, sink=Recorder()))
    with pytest.raises(TopologyFailedError, match="OutcomeError"):
        await running.wait_finished(20)


class Closes(BasicBolt):
    """GeneratorExit is what a coroutine gets when its loop was closed; from user code it means nothing of the kind."""

    def execute(self, tup: Any, collector: Any) -> None:
        raise GeneratorExit


class ClosesLater(BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:
        raise GeneratorExit


class AsksAndCloses(Numbers):
    def next_tuple(self) -> None:
        raise GeneratorExit


@pytest.mark.parametrize(
    ("source", "kind"),
    [(Numbers(3), Closes), (Numbers(3), ClosesLater), (AsksAndCloses(3), Recorder())],
    ids=["bolt", "async bolt", "spout"],
)
async def test_a_generator_exit_of_the_users_own(source: Any, kind: Any) -> None:
    with pytest.raises(GeneratorExit):
        await _learns_of_it(source, kind)


async def _learns_of_it(source: Any, kind: Any) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, bolt=kind))
        with pytest.raises(TopologyFailedError, match="GeneratorExit"):
            await running.wait_finished(timeout_s=20)
        await running.kill()


def caught(act: Callable[[], object]) -> BaseException:
    with pytest.raises((SystemExit, KeyboardInterrupt)) as raised:
        act()
    return raised.value


def test_an_exception_of_a_signal_handler_belongs_to_the_program() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
    try:
        assert is_of_program(caught(lambda: signal.raise_signal(signal.SIGUSR1)))
        assert not is_of_program(caught(lambda: sys.exit(0)))
        assert not is_of_program(KeyboardInterrupt()), "there is a handler, which would have raised it"
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert is_of_program(caught(lambda: signal.raise_signal(signal.SIGINT)))
        assert is_of_program(KeyboardInterrupt()), "Python's own handler leaves no trace"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_error_names_what_user_code_raised() -> None:
    assert str(UserExitError(SystemExit(3))) == "user code raised SystemExit(3), which does not end a process here"
