"""Ways: how each process of a simulated cluster reaches the store: at once, late, or not; some answers do not come.

    asks ─► travels ─► cut? nothing happens ─► the store does it ─► unanswered? it is not known ─► travels ─► answer

1. What one process asks arrives in the order in which it was asked, and so do the answers.
2. What was asked before its process was frozen or killed still arrives.
3. A session ends only if its process was killed, frozen, cut off or ended by the world shortly before.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast

from aiostorm.cluster.coordination import Coordination, MemoryStore, Node, Operation, UnavailableError
from aiostorm.cluster.coordination.polled import SESSION_S, open_polled
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

T = TypeVar("T")

RENEWED_S = SESSION_S / 3 + 1.0
"""So long after the last harm a session has been renewed."""


class Ways:
    """The store, and each process's way to it. `at_once`: does a session end with its process, as on one machine?

    `delay_s`: the longest time of a message to or from the store. `cut`, `unanswered`: are all ways of this process?
    """

    def __init__(self, world: World, store: MemoryStore, *, at_once: bool = True, delay_s: float = 0.0) -> None:
        self.world = world
        self.store = store
        self.at_once = at_once
        self.delay_s = delay_s
        self.chance: random.Random = world.chance.stream("ways")
        self.cut: Callable[[str], bool] = lambda name: False
        self.unanswered: Callable[[str], bool] = lambda name: False
        self.by_process: dict[str, Way] = {}

    @asynccontextmanager
    async def client(self, process: Process) -> AsyncIterator[Coordination]:
        """A client with a session of its own."""
        way = self.by_process[process.name] = Way(self, process)
        died = way.backend.process_died if self.at_once else lambda crashed: way.backend.forgotten()
        process.current.at_death.append(died)
        async with open_polled(way, LoopClock(), "the store", ends_at_once=self.at_once) as client:
            yield client

    def look(self) -> None:
        """Which processes cannot renew their sessions now?"""
        for way in self.by_process.values():
            if way.is_harmed():
                way.harmed_s = self.world.now_s

    def restore(self) -> None:
        """All reach the store."""
        for way in self.by_process.values():
            way.cut_until_s = way.unanswered_until_s = way.hangs_s = way.loses_s = 0.0

    def expired(self, session: int) -> None:
        """A session has ended because it was not renewed: was there a reason?"""
        for way in self.by_process.values():
            healthy_s = self.world.now_s - way.harmed_s
            if way.backend.session == session and way.lives() and healthy_s > RENEWED_S:
                self.world.problem(f"{way.process.name} reached the store for {healthy_s:g} s, and its session ended")


class Way:
    """A Backend: of one client.

    `hangs_s`: its process is frozen for so long at its next commit; `loses_s`: from its next commit on it gets no
    answers for so long.
    """

    def __init__(self, ways: Ways, process: Process) -> None:
        self.ways = ways
        self.process = process
        self.backend = ways.store.backend()
        self.cut_until_s = self.unanswered_until_s = 0.0
        self.hangs_s = self.loses_s = 0.0
        self.harmed_s = ways.world.now_s
        self._incarnation = process.current
        self._arrives_s = self._answered_s = 0.0

    async def begin(self, session_s: float) -> int:
        return await self._asked(partial(self.backend.begin, session_s))

    async def poll(self, session: int, *, renew: bool) -> Collection[str] | None:
        return await self._asked(partial(self.backend.poll, session, renew=renew))

    async def get(self, path: str) -> Node | None:
        return await self._asked(partial(self.backend.get, path))

    async def children(self, path: str) -> list[str]:
        return await self._asked(partial(self.backend.children, path))

    async def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        if self.hangs_s:
            self.process.pause(self.hangs_s)
            self.hangs_s = 0.0
            await asyncio.sleep(0)  # it goes on when it is not frozen any more
        if self.loses_s:
            self.unanswered_until_s = self.ways.world.now_s + self.loses_s
            self.loses_s = 0.0
        return await self._asked(partial(self.backend.apply, operations, session))

    async def end(self, session: int) -> None:
        await self._asked(partial(self.backend.end, session))

    async def close(self) -> None:
        await self.backend.close()

    def lives(self) -> bool:
        """Does the process still run that has it?"""
        return self._incarnation.alive

    def is_harmed(self) -> bool:
        """Can its session not be renewed now?"""
        now_s = self.ways.world.now_s
        return self._cut() or self._unanswered() or self.process.processor.is_harmed(now_s)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _cut(self) -> bool:
        away = self.ways.store.away or self.ways.cut(self.process.name)
        return away or self.ways.world.now_s < self.cut_until_s

    def _unanswered(self) -> bool:
        return self.ways.world.now_s < self.unanswered_until_s or self.ways.unanswered(self.process.name)

    async def _asked(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self.lives():  # the world is over, and its coroutines are ended
            raise UnavailableError("the process of this client has ended")
        if not self.ways.delay_s:
            value, error = self._at_store(call)
            if error is not None:
                raise error
            return cast("T", value)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._arrives_s = max(self._arrives_s, self._later_s())
        self.ways.world.call_at(self._arrives_s, self._arrives, call, answer)
        return await answer

    def _arrives(self, call: Callable[[], Coroutine[Any, Any, Any]], answer: asyncio.Future[Any]) -> None:
        value, error = self._at_store(call)
        self._answered_s = max(self._answered_s, self._later_s())
        self.ways.world.call_at(self._answered_s, _settle, answer, value, error)

    def _later_s(self) -> float:
        return self.ways.world.now_s + self.ways.chance.random() * self.ways.delay_s

    def _at_store(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, Exception | None]:
        self.backend.cut_off, self.backend.unanswered = self._cut(), self._unanswered()
        try:
            return _done(call()), None
        except Exception as error:  # as an answer
            return None, error


def _done(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a store in memory waits for nothing")


def _settle(answer: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if answer.done():  # who has asked does not wait any more
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
