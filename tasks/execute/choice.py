"""Choice: which executor runs a bolt, by what its component defines.

| component | executor |
|---|---|
| `@bolt` function | FunctionExecutor; with hooks BasicExecutor, since hooks see tuples |
| `@bolt(arrow=True)` function, BasicBolt with `execute_arrow` | ArrowExecutor |
| BasicBolt or Bolt with `execute_batch` | BatchExecutor |
| Bolt | RichExecutor |
| BasicBolt | BasicExecutor |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...topology import DEFAULT_STREAM, Bolt, FunctionBolt
from ..emit.collectors import BasicBatchCollector, BasicTaskCollector, BoltTaskCollector, TaskCollector
from ..emit.emitter import Emitter
from ..emit.outbox import Outbox
from ..hooks import HookCalls
from .arrow_executor import ArrowExecutor, ArrowFunction
from .executors import BasicExecutor, BatchExecutor, Executor, Fail, FailSegment, RichExecutor
from .function_executor import FunctionExecutor, function_as_execute


@dataclass(frozen=True, slots=True)
class Tools:
    """What a bolt task gives its executor."""

    emitter: Emitter
    outbox: Outbox
    report: Callable[[BaseException], None]
    suspend: Callable[[], None]
    fail: Fail
    fail_segment: FailSegment
    hooks: HookCalls | None


class Rewire:
    """To a bolt task: run `work` between two turns, while its executor is idle."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work


def choose_executor(
    component: Any, tools: Tools, rich: BoltTaskCollector, collectors: list[TaskCollector], task_id: int
) -> Executor:
    """The executor of a prepared component. Collectors that are made for it are added to `collectors`."""
    emitter, outbox, hooks = tools.emitter, tools.outbox, tools.hooks
    if isinstance(component, FunctionBolt) and component.arrow:
        component = ArrowFunction(component)
    if isinstance(component, FunctionBolt):
        if hooks is None:
            return FunctionExecutor(component, emitter, outbox, tools.fail)
        basic = BasicTaskCollector(emitter, outbox, tools.report)
        default = emitter.streams.get(DEFAULT_STREAM)
        execute = function_as_execute(component, single=default is not None and default.arity == 1)
        return BasicExecutor(execute, basic, tools.fail, lambda collector: None, hooks)
    if hooks is not None and isinstance(component, Bolt):
        calls = hooks
        rich.on_ack(lambda tup: calls.call("bolt_ack", tup, task_id))
    arrow = callable(getattr(component, "execute_arrow", None))
    if arrow or callable(getattr(component, "execute_batch", None)):
        if isinstance(component, Bolt):
            return BatchExecutor(component, rich, tools.suspend, tools.fail_segment)
        batches = BasicBatchCollector(emitter, outbox, tools.report)
        collectors.append(batches)
        kind = ArrowExecutor if arrow else BatchExecutor
        return kind(component, batches, tools.suspend, tools.fail_segment)
    if isinstance(component, Bolt):
        return RichExecutor(component, tools.suspend, hooks)
    basic = BasicTaskCollector(emitter, outbox, tools.report)
    collectors.append(basic)
    return BasicExecutor(component.execute, basic, tools.fail, getattr(component, "on_tick", None), hooks)
