"""Time flow: which components send watermarks to the components downstream, and which of them are reliable.

    orders ──► parse ──► per minute ──► biggest          per minute, biggest: windows by event time
      end       end       watermarks                     below: what each one sends downstream

1. Time messages are sent on every edge that leads to windows: at least the *end*, when no more rows will follow.
2. A component sends watermarks if it has windows by event time, if it declares so (`watermarks = True`), or if all its
   inputs send them: then it forwards the lowest.
3. Windows by count or by processing time know nothing about event time: they send only the end.
4. Nothing is sent on an edge that closes a cycle.
5. If windows use timestamps in the rows, a component that emits to them and sends no watermarks itself derives them
   from these timestamps, and sends them to that window component only (tasks/emit/following.py).

From: Flink, where sources emit watermarks; in JStorm only windowed bolts do, and bolts between drop them (depart).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .feedback import Edge
    from .topology import Topology
    from .window_keys import WindowKey


class Windowing(Enum):
    """How a component's windows are defined."""

    NONE = "none"
    COUNTS = "counts"  # windows by count
    CLOCK = "clock"  # windows by processing time
    EVENTS = "events"  # windows by event time, or by ingestion time


class LaterRows(Enum):
    """Later rows that are needed before kept rows can be acked (retention.py)."""

    NONE = "none"
    SOME = "a later row of some input"
    EACH = "a later row of each input"


@dataclass(frozen=True, slots=True)
class TimeRole:
    """A component's declared role in event time. `emits_watermarks`: it emits watermarks itself.

    `stamped`: it needs the ingestion time of rows. `follow` (windows.RowTime): components that emit to it follow the
    timestamps of these rows; None: not needed.

    `keeps`: rows are acked when windows fire, `kept_ms` after they arrived (None: unknown). `kept_rows`: at least this
    many must be open, or no window fires. `later`: later rows that are also needed. `anchors`: everything that it emits
    is anchored to its inputs.

    `resumes`: the option ("progress=") that makes a later run skip acked messages; empty: there is none, or the user
    accepts the loss. `key`: which rows share windows; None: it has no windows.
    """

    windowing: Windowing = Windowing.NONE
    emits_watermarks: bool = False
    keeps: bool = False
    kept_ms: int | None = None
    kept_rows: int | None = None
    later: LaterRows = LaterRows.NONE
    anchors: bool = False
    stamped: bool = False
    follow: Any = None  # of a higher package
    resumes: str = ""
    key: WindowKey | None = None

    @property
    def loses_windows(self) -> bool:
        """Does it have windows in memory whose rows are acked before they fire?"""
        return self.windowing is not Windowing.NONE and not self.keeps

    @property
    def uses_time(self) -> bool:
        """Does it need watermarks, or the end of its inputs?"""
        return self.windowing in (Windowing.CLOCK, Windowing.EVENTS) or self.keeps


NO_ROLE: Final = TimeRole()
"""The role of a component without windows or watermarks."""


@dataclass(frozen=True, slots=True)
class TimeFlow:
    """The flow of time in one topology, by component.

    `sends_time`: it sends time messages. `sends_watermarks`: these include watermarks (else only the end). `kept`: rows
    downstream are acked when windows fire, so its end cannot wait for acks. `stamped`: rows carry their ingestion time.
    """

    sends_time: frozenset[str]
    sends_watermarks: frozenset[str]
    kept: frozenset[str]
    stamped: bool
    roles: Mapping[str, TimeRole]

    def follows(self, component: str) -> bool:
        """Do components that emit to it, and send no watermarks, follow the timestamps of what they emit?"""
        return self.roles[component].follow is not None

    def receives_time(self, component: str) -> bool:
        """Are time messages sent to it?"""
        return component in self.sends_time or self.roles[component].uses_time


def time_flow(topology: Topology, feedback: frozenset[Edge]) -> TimeFlow:
    """Compute the flow of time through a topology."""
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
    """All components upstream of `asked`."""
    found: set[str] = set()
    ahead = [source for component in asked for source in sources[component]]
    while ahead:
        component = ahead.pop()
        if component not in found:
            found.add(component)
            ahead += sources[component]
    return found
