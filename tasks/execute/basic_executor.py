"""Basic executor: `execute(tup, collector)` of a basic bolt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import islice
from typing import Any

from ...topology import BasicBolt, Segment, Tuple
from ..drive import USER_ERRORS, finish, user_error
from ..emit.collectors import BasicTaskCollector
from ..hooks import HookCalls
from .base import Collectors, Executor, Fail, Tools


class BasicExecutor(Executor):
    """Basic bolts, one Tuple at a time, with hooks if there are any."""

    @classmethod
    def for_component(cls, component: Any, tools: Tools, collectors: Collectors) -> Executor | None:
        if not isinstance(component, BasicBolt):
            return None
        collector = BasicTaskCollector(tools.emitter, tools.outbox, tools.report)
        collectors.all.append(collector)
        return cls(component.execute, collector, tools.fail, getattr(component, "on_tick", None), tools.hooks)

    def __init__(
        self,
        execute: Callable[[Tuple, BasicTaskCollector], Any],
        collector: BasicTaskCollector,
        fail: Fail,
        on_tick: Callable[[BasicTaskCollector], Any] | None,
        hooks: HookCalls | None = None,
    ) -> None:
        self._execute = execute
        self._collector = collector
        self._fail = fail
        self._on_tick = on_tick
        self._hooks = hooks
        self.plain = not inspect.iscoroutinefunction(execute)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        collector = self._collector
        collector.enter(segment)
        try:
            if self._hooks is not None:
                return await self._run_with_hooks(self._hooks, segment, start, stop)
            failed = 0
            execute = self._execute
            bare = segment.origin.bare
            for offset, item in enumerate(islice(segment.items, start, stop), start):
                collector.offset = offset
                try:
                    result = execute(Tuple((item,) if bare else item, segment, offset), collector)
                    if result is not None:
                        await finish(result, collector.suspend)
                except USER_ERRORS as error:
                    failed += 1
                    self._fail(segment, offset, user_error(error))
            return failed
        finally:
            collector.leave()

    def reached(self) -> int | None:
        return self._collector.offset

    def refresh(self) -> None:
        self._collector.refresh()

    async def _run_with_hooks(self, hooks: HookCalls, segment: Segment, start: int, stop: int) -> int:
        failed = 0
        collector = self._collector
        for offset in range(start, stop):
            tup = segment.tuple_at(offset)
            collector.offset = offset
            begun_s = hooks.begin()
            acked = True
            try:
                await finish(self._execute(tup, collector), collector.suspend)
            except USER_ERRORS as error:
                failed += 1
                acked = False
                self._fail(segment, offset, user_error(error))
            hooks.executed(tup, begun_s, acked=acked)
        return failed

    async def tick(self, segment: Segment) -> None:
        if self._on_tick is None:
            await self.run(segment, 0, 1)
            return
        self._collector.enter(segment)
        try:
            await finish(self._on_tick(self._collector), self._collector.suspend)
        except USER_ERRORS as error:
            self._fail(segment, 0, user_error(error))
        finally:
            self._collector.leave()
