"""Windowing: the event-time driver of a bolt task, by what its component declares.

| component | driver |
|---|---|
| WindowedBolt | with the windows of its WindowExecutor |
| BufferedWindowBolt | with the windows of its BufferedExecutor |
| any other, with windows downstream | without windows: passes watermarks on |
| any other | none |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...windows import BufferedWindowBolt, TimeSettings, WatermarkTracker, WindowBolt, WindowedBolt
from ..event_time.driver import EventTimeDriver, TimeTools
from .buffered_executor import BufferedExecutor
from .kept_tuples import KeptTuples
from .window_executor import WindowExecutor

if TYPE_CHECKING:
    from ...topology import Config, TaskSpec, Unchecked
    from ..emit.collectors import BoltTaskCollector
    from ..environment import Environment
    from .base import Tools

_PLAIN = WindowBolt()
"""The settings of a bolt that only passes watermarks on."""


def make_keeper(
    env: Environment, task: TaskSpec, component: Unchecked, config: Config, report: Callable[[BaseException], None]
) -> WatermarkTracker | None:
    """The watermark tracker of one task; None: the task does not handle event time."""
    name, is_windowed = task.component, isinstance(component, WindowBolt)
    if not (is_windowed or env.plan.time.receives_time(name)):
        return None
    settings = TimeSettings.of(component if is_windowed else _PLAIN, config)
    if not is_windowed or component.by_count:
        settings = settings.without_lag()
    now_ms = int(env.clock.monotonic() * 1000)
    generators = is_windowed and not component.by_count and component.follows_rows
    inputs = env.time_inputs(name)
    if env.plan.time.follows(name):  # inputs without watermarks of their own derive them from the rows
        inputs = dict.fromkeys(inputs, True)
    return WatermarkTracker(inputs, settings, now_ms, report, generators=generators)


def window_executor(
    component: WindowBolt,
    tools: Tools,
    collector: BoltTaskCollector,
    env: Environment,
    task: TaskSpec,
    config: Config,
    keeper: WatermarkTracker,
) -> WindowExecutor | BufferedExecutor:
    """The executor of a bolt with windows."""
    settings = TimeSettings.of(component, config)
    time = _tools(tools, env, task, keeper)
    if isinstance(component, BufferedWindowBolt):
        if (hooks := tools.hooks) is not None:
            collector.on_ack(lambda tup: hooks.call("bolt_ack", tup, task.task_id))
        kept = KeptTuples(env.stream_fields())
        return BufferedExecutor(component, settings, tools, collector, time, kept)
    if not isinstance(component, WindowedBolt):
        raise TypeError(f"{component!r} is neither a WindowedBolt nor a BufferedWindowBolt")
    fields = env.stream_fields()
    inputs = [fields[s.source.component, s.source.stream] for s in env.topology.components[task.component].inputs]
    return WindowExecutor(component, settings, component.layout(inputs), tools, time)


def pass_through_driver(
    tools: Tools, env: Environment, task: TaskSpec, keeper: WatermarkTracker | None
) -> EventTimeDriver | None:
    """The driver of a bolt without windows; None: no windows downstream."""
    if keeper is None or not tools.emitter.watermarks.receivers:
        return None
    return EventTimeDriver(_tools(tools, env, task, keeper))


def _tools(tools: Tools, env: Environment, task: TaskSpec, keeper: WatermarkTracker) -> TimeTools:
    watermarks = tools.emitter.watermarks
    return TimeTools(
        clock=env.clock,
        keeper=keeper,
        send=tools.emitter.send_watermark if watermarks.receivers else None,
        # A component that emits its own watermarks passes on only the end.
        sends_all=task.component in env.plan.time.sends_watermarks and not watermarks.declared,
        sent=tools.emitter.sent,
    )
