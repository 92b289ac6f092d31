"""LoopTurns: how many long pieces begin in one round of the event loop."""

from __future__ import annotations

import asyncio

from aiostorm.runtime import LoopClock, LoopTurns
from aiostorm.runtime.loop_turns import SHARE_S


class Steps(LoopClock):
    """A stopwatch that only moves when a piece says how long it took."""

    def __init__(self) -> None:
        super().__init__()
        self.at_s = 0.0
        self.stopwatch = lambda: self.at_s


async def rounds_of(took_s: list[list[float]]) -> list[list[str]]:
    """The pieces that began in each round of the loop that had any. `took_s`: of the pieces of each task."""
    clock = Steps()
    turns, rounds, done = LoopTurns(clock), [[]], False

    async def task(number: int) -> None:
        for piece, seconds in enumerate(took_s[number]):
            await turns.next()
            rounds[-1].append(f"{number}.{piece}")
            clock.at_s += seconds

    async def count() -> None:
        while not done:
            rounds.append([])
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with asyncio.TaskGroup() as group:
        for number in range(len(took_s)):
            group.create_task(task(number))
    done = True
    await counting
    return [pieces for pieces in rounds if pieces]


async def test_short_pieces_share_a_round() -> None:
    assert await rounds_of([[0.001], [0.001], [0.001]]) == [["0.0", "1.0", "2.0"]]


async def test_after_its_share_no_further_piece_begins_in_a_round() -> None:
    assert await rounds_of([[0.004], [0.004], [0.004]]) == [["0.0"], ["1.0"], ["2.0"]]
    assert await rounds_of([[0.002], [0.002], [0.002]]) == [["0.0", "1.0"], ["2.0"]]


async def test_the_share_is_over_when_it_is_passed() -> None:
    assert await rounds_of([[SHARE_S], [0.1], [0.1]]) == [["0.0", "1.0"], ["2.0"]]


async def test_every_task_has_its_turns() -> None:
    rounds = await rounds_of([[0.004] * 20, [0.004] * 20, [0.001] * 20])
    pieces = [piece for found in rounds for piece in found]
    assert sorted(pieces) == sorted(f"{task}.{piece}" for task in range(3) for piece in range(20))
    assert all(sum(0.004 if piece[0] < "2" else 0.001 for piece in found) <= SHARE_S + 0.004 for found in rounds)
    assert pieces.index("1.0") < 4, "the second task does not wait for all pieces of the first"


async def test_one_task_has_a_piece_in_each_round() -> None:
    assert await rounds_of([[0.5] * 5]) == [[f"0.{piece}"] for piece in range(5)]


async def test_a_cancelled_task_holds_up_none() -> None:
    turns = LoopTurns(Steps())
    first = asyncio.create_task(turns.next())
    await asyncio.sleep(0)
    second = asyncio.create_task(turns.next())
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    async with asyncio.timeout(1):
        await second
