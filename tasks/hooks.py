"""Hooks: user code called around what a task does. Only a task that has hooks pays for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..topology import Row, TaskHook, Tuple


class HookCalls:
    """The hooks of one task: an error in one is reported and changes nothing."""

    def __init__(
        self,
        hooks: list[TaskHook],
        task_id: int,
        stopwatch: Callable[[], float],
        report: Callable[[BaseException], None],
    ) -> None:
        self.begin = stopwatch
        self._hooks = hooks
        self._task_id = task_id
        self._report = report

    def call(self, name: str, *arguments: Any) -> None:
        """Call one method of every hook."""
        for hook in self._hooks:
            try:
                getattr(hook, name)(*arguments)
            except Exception as error:
                self._report(error)

    def emitted(self, row: Row, stream: str) -> None:
        """A row was emitted."""
        self.call("emit", row, stream, self._task_id)

    def executed(self, tup: Tuple, begun_s: float, acked: bool | None = None) -> None:
        """A tuple was executed; for a basic bolt also what became of it."""
        self.call("bolt_execute", tup, self._task_id, self.begin() - begun_s)
        if acked is not None:
            self.call("bolt_ack" if acked else "bolt_fail", tup, self._task_id)
