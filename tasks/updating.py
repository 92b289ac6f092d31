"""Updating: settings that a running topology is given anew, task by task. They hold from the next turn on.

1. What a task reads from its `config` when it needs it needs no more; the rest is copied here.
2. Messages that are open get the new timeout, counted from when they were emitted.
3. What is not here cannot be changed: topology/config has the list, docs/storm.md the reasons.
"""

from __future__ import annotations

from ..topology import Config
from .bolt_task import BoltTask
from .spout_task import SpoutTask


def update_spout(task: SpoutTask, config: Config) -> None:
    """A spout task's."""
    task.config = config
    task._limit = config.max_spout_pending
    task._expiry.time_out_after(config.message_timeout_s)
    task.free()


def update_bolt(task: BoltTask, config: Config) -> None:
    """A bolt task's."""
    before, task.config = task.config, config
    task.set_limits(config)
    if config.tick_tuple_freq_s != before.tick_tuple_freq_s and task.ready.done():
        task.begin_ticks()
