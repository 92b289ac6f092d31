"""What is no Exception (pytest.fail, say) is nobody's to handle: the topology fails, and whoever waits hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, LocalCluster, TopologyFailedError, bolt, spout
from aiostorm.testing import Recorder

from .parts import Numbers, line


class OutcomeError(BaseException):
    """As pytest's own: not an Exception."""


class Basic(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        raise OutcomeError


class Later(BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:
        raise OutcomeError


class Rich(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        """Nothing to keep."""

    def execute(self, tup: Any) -> None:
        raise OutcomeError


@bolt
def function(n: int) -> None:
    raise OutcomeError


class Asks(Numbers):
    def next_tuple(self) -> None:
        raise OutcomeError


class Hears(Numbers):
    def ack(self, message_id: Any) -> None:
        raise OutcomeError


@spout(outputs="n")
def generator() -> Iterator[int]:
    yield 1
    raise OutcomeError


@pytest.mark.parametrize("kind", [Basic, Later, Rich, function], ids=str)
async def test_in_a_bolt(kind: Any) -> None:
    await _fails(Numbers(3), kind)


@pytest.mark.parametrize("source", [Asks(3), Hears(3), generator], ids=lambda source: type(source).__name__)
async def test_in_a_spout(source: Any) -> None:
    await _fails(source, Recorder())


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
    await _fails(source, kind, GeneratorExit)


async def _fails(source: Any, kind: Any, error: type[BaseException] = OutcomeError) -> None:
    with pytest.raises(error):
        await _hears_of_it(source, kind, error.__name__)


async def _hears_of_it(source: Any, kind: Any, error: str) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, bolt=kind))
        with pytest.raises(TopologyFailedError, match=error):
            await running.wait_finished(timeout_s=20)
        await running.kill()
