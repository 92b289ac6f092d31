"""Choice: which executor runs a bolt, by what its component defines.

| component | executor |
|---|---|
| `@bolt(arrow=True)` function, BasicBolt with `execute_arrow` | ArrowExecutor |
| `@bolt` function | FunctionExecutor; with hooks BasicExecutor, since hooks see tuples |
| BasicBolt or Bolt with `execute_batch` | BatchExecutor |
| Bolt | RichExecutor |
| BasicBolt | BasicExecutor |

Bolts with windows are in windowing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...topology import Bolt
from .arrow_executor import ArrowExecutor
from .base import Collectors, Executor, Tools
from .basic_executor import BasicExecutor
from .batch_executor import BatchExecutor
from .function_executor import FunctionExecutor
from .rich_executor import RichExecutor

if TYPE_CHECKING:
    from ...topology import Component
    from ..emit.collectors import BoltTaskCollector, TaskCollector

EXECUTORS: Final[tuple[type[Executor], ...]] = (
    ArrowExecutor,
    FunctionExecutor,
    BatchExecutor,
    RichExecutor,
    BasicExecutor,
)
"""The first that has one for the component is taken."""


class Rewire:
    """To a bolt task: run `work` between two turns, while its executor is idle."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work


def choose_executor(
    component: Component, tools: Tools, rich: BoltTaskCollector, collectors: list[TaskCollector], task_id: int
) -> Executor:
    """The executor of a prepared component. Collectors that are made for it are added to `collectors`."""
    if (hooks := tools.hooks) is not None and isinstance(component, Bolt):
        rich.on_ack(lambda tup: hooks.call("bolt_ack", tup, task_id))
    for kind in EXECUTORS:
        executor = kind.for_component(component, tools, Collectors(rich, collectors))
        if executor is not None:
            return executor
    raise TypeError(f"{component!r} is no bolt that an executor can run")
