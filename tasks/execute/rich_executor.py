"""Rich executor: `execute(tup)` of a rich bolt, which acks and fails by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...topology import Bolt, Segment
from ..drive import USER_ERRORS, finish, user_error
from .base import Collectors, Executor, RowFailedError, Tools

if TYPE_CHECKING:
    from ...topology import Component, Returned
    from ..hooks import HookCalls


class RichExecutor(Executor):
    """Rich bolts ack and fail by themselves; what `execute` raises is for the guardian to decide."""

    hold_open = True

    @classmethod
    def for_component(cls, component: Component, tools: Tools, collectors: Collectors) -> Executor | None:
        return cls(component, tools.suspend, tools.hooks) if isinstance(component, Bolt) else None

    def __init__(self, bolt: Bolt, suspend: Callable[[], None], hooks: HookCalls | None = None) -> None:
        self._execute = bolt.execute
        self.plain = not inspect.iscoroutinefunction(bolt.execute)
        self._suspend = suspend
        self._hooks = hooks
        self._on_tick: Callable[[], Returned] | None = getattr(bolt, "on_tick", None)

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        execute, hooks = self._execute, self._hooks
        for offset in range(start, stop):
            tup = segment.tuple_at(offset)
            begun_s = hooks.begin() if hooks is not None else 0.0
            try:
                result = execute(tup)
                if result is not None:
                    await finish(result, self._suspend)
            except USER_ERRORS as error:
                raise RowFailedError(offset) from user_error(error)
            if hooks is not None:
                hooks.executed(tup, begun_s)
        return 0

    def reached(self) -> int | None:
        return 0

    async def tick(self, segment: Segment) -> None:
        if self._on_tick is None:
            await self.run(segment, 0, 1)
        else:
            await finish(self._on_tick(), self._suspend)
