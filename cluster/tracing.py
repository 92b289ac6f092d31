"""Tracing: one tuple tree of a running topology, from its spout to its ack, when a caller wants to see one.

trace(component) ─► the next tree of each spout above it gets a sampled root ─► rows of all tasks that handle it
                    └─ again, until one is complete and has passed the component ◄─ joined (metrics/traces)
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..runtime import AiostormError
from ..topology import ACKER_COMPONENT

if TYPE_CHECKING:
    from ..metrics import Trace
    from ..topology import Plan, Topology
    from .runtimes import TopologyRuntime

LOOK_S: Final = 0.05
"""Workers report a few times a second."""

MAX_WANTED: Final = 100
"""The most trees of a spout task that wait to be sampled."""


class TraceError(AiostormError):
    """A tuple tree cannot be traced; the text says why, and what to do."""


def untraced(plan: Plan, guarantee: str) -> str:
    """Why the tuple trees of a topology cannot be traced; empty: they can."""
    if plan.tasks_of.get(ACKER_COMPONENT):
        return ""
    if guarantee != "at-least-once":
        return f"with {guarantee} tuples are in no tree, so there is nothing to trace: at-least-once has trees"
    return "without ackers tuples are in no tree, so there is nothing to trace: topology.acker.executors is 0"


def spouts_above(topology: Topology, component: str | None) -> tuple[str, ...]:
    """The spouts whose tuples reach a component; None: all. TraceError for a name that is no component."""
    if component is None:
        return tuple(spec.id for spec in topology.spouts)
    if component not in topology.components:
        close = difflib.get_close_matches(component, topology.components, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise TraceError(f"no component {component!r:.200}: {meant}There are {', '.join(topology.components)}")
    found: dict[str, None] = {}
    left = [component]
    while left:
        name = left.pop()
        if name not in found and name in topology.components:
            found[name] = None
            left += [each.source.component for each in topology.components[name].inputs]
    return tuple(name for name in found if topology.components[name].kind == "spout")


async def next_trace(
    runtime: TopologyRuntime, topology: Topology, component: str | None, timeout_s: float, check: Callable[[], None]
) -> Trace:
    """The first tree that is emitted from now on, passes the component, and is complete. `check` raises if none can be.

    TraceError after `timeout_s`, with what was seen until then.
    """
    spouts = spouts_above(topology, component)
    known = {trace.id for trace in runtime.reports.traces()}
    seen: list[Trace] = []
    try:
        async with asyncio.timeout(timeout_s):
            await runtime.want_traces(spouts, 1)
            while True:
                check()
                seen = [trace for trace in runtime.reports.traces() if trace.id not in known]
                if any(trace.complete_s is not None for trace in seen):  # its spans in other workers may come later
                    seen = [trace for trace in await runtime.fresh_traces() if trace.id not in known]
                ready = [each for each in seen if each.complete_s is not None]
                for trace in reversed(ready):
                    if component is None or trace.passes(component):
                        return trace
                if ready:
                    known |= {trace.id for trace in ready}
                    await runtime.want_traces(spouts, 1)
                await asyncio.sleep(LOOK_S)
    except TimeoutError as error:
        raise TraceError(_nothing(spouts, component, timeout_s, seen)) from error


def _nothing(spouts: Sequence[str], component: str | None, timeout_s: float, seen: Sequence[Trace]) -> str:
    names = ", ".join(spouts) or "no spout"
    waiting = [trace for trace in seen if trace.complete_s is None]
    if waiting:
        at = ", ".join(dict.fromkeys(trace.spans[-1].component for trace in waiting if trace.spans))
        where = f"; it was last seen in {at}" if at else ""
        return f"a tree of {names} was not complete within {timeout_s:g} s{where}: wait longer, or see its open trace"
    passed = "" if component is None else f" that passes {component}"
    return f"{names} emitted no tree{passed} within {timeout_s:g} s: is the topology active, and has it any input?"
