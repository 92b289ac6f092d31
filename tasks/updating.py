"""Updating: settings of a running topology that are replaced, task by task. They apply from the next turn on.

1. What a task reads from its `config` at each use needs nothing more; the rest is copied here.
2. Messages that are open get the new timeout, counted from when they were emitted.
3. Settings that are not here cannot be changed: topology/config has the list, docs/storm.md the reasons.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..topology import Config, FunctionBolt, Tuple
from .emit.collectors import BoltTaskCollector
from .execute.choice import Rewire, choose_executor

if TYPE_CHECKING:
    from .bolt_task import BoltTask
    from .hooks import HookCalls
    from .spout_task import SpoutTask


def update_spout(task: SpoutTask, config: Config) -> None:
    """Give a spout task its new settings."""
    task.use_config(config)
    task.user.log_activity(wanted=config.debug)
    task.wake()


def update_bolt(task: BoltTask, config: Config) -> None:
    """Give a bolt task its new settings."""
    before = task.config
    task.use_config(config)
    task.failures.set_limits(config)
    if config.tick_tuple_freq_s != before.tick_tuple_freq_s and task.ready.done():
        task.begin_ticks()
    if config.debug != before.debug:
        task.mailbox.post(Rewire(partial(_watch, task)))


def _watch(task: BoltTask) -> None:
    """Switch the debug log: the executor is given the hooks, or is replaced by another."""
    if not task.user.log_activity(wanted=task.config.debug):
        return
    hooks, component, task_id = task.user.hook_calls, task.user.component, task.task.task_id
    collector = task.collectors[0]
    if not isinstance(collector, BoltTaskCollector):
        raise TypeError(f"the first collector of {task.name} is {collector!r}")
    if isinstance(component, FunctionBolt) and not component.arrow:
        executor = choose_executor(component, task.make_tools(), collector, task.collectors, task_id)
        task.execution.use(executor)
        return
    task.execution.executor.use_hooks(hooks)
    if task.execution.executor.hold_open:
        collector.on_ack(None if hooks is None else partial(_acked, hooks, task_id))


def _acked(hooks: HookCalls, task_id: int, tup: Tuple) -> None:
    hooks.call("bolt_ack", tup, task_id)
