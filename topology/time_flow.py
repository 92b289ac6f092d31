"""Time flow: which components tell those behind them how far time has come, and which of them can be believed.

    orders ──► parse ──► per minute ──► biggest          per minute, biggest: windows by event time
      end       end       watermarks                     what each tells those behind it

1. A mark travels on every edge behind which somebody has windows: at least the *end*, when no more rows will come.
2. A component *tells* watermarks if it has windows by event time, if it says that it does (`watermarks = True`), or if
   all that it reads tells them: then it passes on the least.
3. Windows by count or by processing time say nothing about event time: behind them only the end is told.
4. Nothing is told on an edge that closes a cycle.
5. Where windows go by timestamps in the rows, whoever emits to them and tells nothing itself follows these timestamps,
   and sends marks to that component alone (tasks/event_time/following.py).

From: Flink, where sources tell; in JStorm only windowed bolts do, and what is between them swallows it (depart).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .plan import Edge
    from .topology import Topology


class Windowing(Enum):
    """What a component does with time."""

    NONE = "none"
    COUNTS = "counts"  # windows by count
    CLOCK = "clock"  # windows by processing time
    EVENTS = "events"  # windows by event time, or by ingestion time


class LaterRows(Enum):
    """What must come before rows that are kept are let go (retention.py)."""

    NONE = "none"
    SOME = "a later row of some input"
    EACH = "a later row of each input"


@dataclass(frozen=True, slots=True)
class TimeRole:
    """What a component declares. `tells`: it emits watermarks itself. `stamped`: it asks when a row came in.

    `follow` (windows.RowTime): those that emit to it follow the timestamps of what they emit; None: they need not.

    `keeps`: rows are acked when windows fire, `kept_ms` after they came (None: nobody can say). `kept_rows`: so many of
    them must be there at once, or no window fires. `later`: rows that must come as well. `anchors`: what it emits is a
    child of what it reads, always.

    `resumes`: what was acked does not come again in a later run, and by what ("progress="); empty: nothing of the kind,
    or the user accepts what that loses.
    """

    windowing: Windowing = Windowing.NONE
    emits_watermarks: bool = False
    keeps: bool = False
    kept_ms: int | None = None
    kept_rows: int | None = None
    later: LaterRows = LaterRows.NONE
    anchors: bool = False
    stamped: bool = False
    follow: Any = None
    resumes: str = ""

    @property
    def loses_windows(self) -> bool:
        """Has it windows in memory whose rows are acked before they fire?"""
        return self.windowing is not Windowing.NONE and not self.keeps

    @property
    def uses_time(self) -> bool:
        """Does it want to hear of time, or of its end?"""
        return self.windowing in (Windowing.CLOCK, Windowing.EVENTS) or self.keeps


NO_ROLE: Final = TimeRole()
"""Of a component that has nothing to do with time."""


@dataclass(frozen=True, slots=True)
class TimeFlow:
    """Of one topology, by component.

    `marks`: it sends marks. `tells`: its watermarks are told (else only its end is). `kept`: behind it rows are acked
    when windows fire, so its end cannot wait for acks. `stamped`: rows carry the time at which they came in.
    """

    sends_time: frozenset[str]
    sends_watermarks: frozenset[str]
    kept: frozenset[str]
    stamped: bool
    roles: Mapping[str, TimeRole]

    def follows(self, component: str) -> bool:
        """Do those that emit to it, and tell nothing themselves, follow the timestamps of what they emit?"""
        return self.roles[component].follow is not None

    def receives_time(self, component: str) -> bool:
        """Are marks sent to it?"""
        return component in self.sends_time or self.roles[component].uses_time


def time_flow(topology: Topology, feedback: frozenset[Edge]) -> TimeFlow:
    """Follow time through a topology."""
    specs = topology.components
    roles = {spec.id: spec.time for spec in specs.values()}
    sources: dict[str, list[str]] = {component: [] for component in specs}
    consumers: dict[str, list[str]] = {component: [] for component in specs}
    for spec in specs.values():
        for subscription in spec.inputs:
            source = subscription.source.component
            if source in specs and (subscription.source, spec.id) not in feedback:
                sources[spec.id].append(source)
                consumers[source].append(spec.id)
    sends_time = _behind(sources, {component for component, role in roles.items() if role.uses_time})
    kept = _behind(sources, {component for component, role in roles.items() if role.keeps})
    senders: set[str] = set()
    grown = True
    while grown:
        more = {
            component
            for component, role in roles.items()
            if component not in senders and _sends_watermarks(role, sources[component], senders)
        }
        senders |= more
        grown = bool(more)
    stamped = any(role.stamped for role in roles.values())
    return TimeFlow(frozenset(sends_time), frozenset(senders), frozenset(kept), stamped, roles)


def _sends_watermarks(role: TimeRole, sources: list[str], senders: set[str]) -> bool:
    if role.emits_watermarks or role.windowing is Windowing.EVENTS:
        return True
    return role.windowing is Windowing.NONE and bool(sources) and senders.issuperset(sources)


def _behind(sources: Mapping[str, list[str]], asked: set[str]) -> set[str]:
    """All that `asked` read, from whatever distance."""
    found: set[str] = set()
    ahead = [source for component in asked for source in sources[component]]
    while ahead:
        component = ahead.pop()
        if component not in found:
            found.add(component)
            ahead += sources[component]
    return found
