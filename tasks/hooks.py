"""Hooks: user code that is called around the work of a task. Only a task that has hooks pays for them.

1. An error in a hook is reported and changes nothing.
2. A hook that is named in the configuration is looked up before anything runs: a name that cannot be found is a mistake
   of the configuration, not of a task.
3. `topology.debug` is a built-in hook.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ..topology import Config, ConfigError, Failure, Row, Segment, TaskHook, TopologyContext, Tuple
from .drive import USER_ERRORS, user_error

if TYPE_CHECKING:
    from ..topology import MessageId, Unchecked

log = logging.getLogger("aiostorm.debug")


class HookCalls:
    """The hooks of one task."""

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

    def call(self, name: str, *arguments: Unchecked) -> None:
        """Call one method of every hook."""
        for hook in self._hooks:
            try:
                getattr(hook, name)(*arguments)
            except USER_ERRORS as error:
                self._report(user_error(error))

    def emitted(self, row: Row, stream: str) -> None:
        """A row was emitted."""
        self.call("emit", row, stream, self._task_id)

    def executed(self, tup: Tuple, begun_s: float, acked: bool | None = None) -> None:
        """A tuple was executed; for a basic bolt also whether it was acked."""
        self._executed(tup, self.begin() - begun_s, acked)

    def batch_executed(self, segments: Sequence[Segment], used_s: float, acked: bool | None) -> None:
        """A batch was executed: call the hooks for each of its tuples, with its share of the time."""
        share_s = used_s / max(1, sum(map(len, segments)))
        for segment in segments:
            for offset in range(len(segment)):
                self._executed(segment.tuple_at(offset), share_s, acked)

    def rows_executed(self, segment: Segment, start: int, stop: int, used_s: float, failed: Collection[int]) -> None:
        """Rows [start, stop) were executed together: all are acked, except those that failed."""
        share_s = used_s / max(1, stop - start)
        for offset in range(start, stop):
            self._executed(segment.tuple_at(offset), share_s, offset not in failed)

    def shown(self, tup: Tuple, latency_s: float) -> None:
        """A tuple was executed; whether it is acked is known later."""
        self._executed(tup, latency_s, None)

    def _executed(self, tup: Tuple, latency_s: float, acked: bool | None) -> None:
        self.call("bolt_execute", tup, self._task_id, latency_s)
        if acked is not None:
            self.call("bolt_ack" if acked else "bolt_fail", tup, self._task_id)


class DebugHook(TaskHook):
    """Logs what a task does under `aiostorm.debug`, at level INFO: config key `topology.debug`."""

    def prepare(self, context: TopologyContext) -> None:
        self._label = f"{context.topology}: {context.component}[{context.task_id}]"

    def emit(self, values: Row, stream: str, task_id: int) -> None:
        log.info("%s emits %.500s on %r", self._label, values, stream)

    def spout_ack(self, message_id: MessageId, task_id: int, complete_latency_s: float) -> None:
        log.info("%s gets ack of %.500r after %.3f s", self._label, message_id, complete_latency_s)

    def spout_fail(self, message_id: MessageId, task_id: int, failure: Failure) -> None:
        log.info("%s gets fail of %.500r: %s", self._label, message_id, failure)

    def bolt_execute(self, tup: Tuple, task_id: int, execute_latency_s: float) -> None:
        log.info("%s executes %s", self._label, tup)

    def bolt_ack(self, tup: Tuple, task_id: int) -> None:
        log.info("%s acks %s", self._label, tup)

    def bolt_fail(self, tup: Tuple, task_id: int) -> None:
        log.info("%s fails %s", self._label, tup)


def import_hooks(config: Config) -> list[type[TaskHook]]:
    """The classes that `topology.auto.task.hooks` names. ConfigError for names that cannot be found."""
    found: list[type[TaskHook]] = []
    problems: list[str] = []
    for name in config.auto_task_hooks:
        module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
        try:
            hook = getattr(import_module(module), attribute)
        except Exception as error:  # importing runs user code
            problems.append(
                f"topology.auto.task.hooks: {name!r} cannot be loaded ({type(error).__name__}: {error}); name it as "
                f"package.module:Class"
            )
            continue
        if isinstance(hook, type) and issubclass(hook, TaskHook):
            found.append(hook)
        else:
            problems.append(f"topology.auto.task.hooks: {name!r} is no TaskHook; derive it from aiostorm.TaskHook")
    if problems:
        raise ConfigError(*problems)
    return found
