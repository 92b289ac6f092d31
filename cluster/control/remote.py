"""Remote topologies: those that run in other programs of this user, as they were when they were last asked.

    control folder ─ scan ─► RemoteTopologies ─► RemoteTopology ─ refresh ─► View ─► metrics(), backpressure(), …

1. A RemoteTopology has what is read of a RunningTopology, of one moment: `read_at_s`. What shows it refreshes it.
2. It asks only while it is read: a program that is not looked at is asked for nothing.
3. One that has ended stays as it was last, with the state KILLED (or FAILED, if it was), until its name runs again.
4. A program that cannot be shown (of another version, say) is reported once, with the reason, and left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...runtime import LoopClock
from ...topology import Config, ConfigError, outlined, plan_with
from ..errors import ControlError
from ..running_topology import State
from .folder import find, running_topologies
from .orders import SNAPSHOT_S, OrderName, OrderRequest, OrderResponse
from .protocol import ANSWER_S, ProfileRequest, ProfileResponse, TraceRequest, TraceResponse, UpdateRequest, ask
from .view import MOST_TRACES, Reports, TracesRequest, TracesResponse, View, ViewRequest, ViewResponse, opened

if TYPE_CHECKING:
    from ...backpressure import Backpressure
    from ...metrics import SnapshotMetrics, TopologyMetrics, Trace
    from ...runtime import Profile, Stall
    from ...state import ListedSnapshot
    from ...tasks import ErrorReport
    from ...topology import Plan, Setting, Topology
    from ...transport import Network
    from ..runtimes import WorkerStatus
    from .folder import TopologySocket

READ_S: Final = 2.0
"""How long to wait for a view: a program whose event loop is blocked longer is shown as one that does not answer."""

LOOK_S: Final = 3.0
"""So long after it was read, a topology counts as looked at."""

MOST_ENDED: Final = 20

OVER: Final = (State.KILLED, State.FAILED)


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, and what is made of it."""

    view: View
    topology: Topology
    config: Config
    plan: Plan
    metrics: TopologyMetrics
    reports: Reports


class RemoteTopology:
    """A topology of another program, as it was at `read_at_s`. Made by `RemoteTopologies`, or by `opened_remote`."""

    def __init__(self, network: Network, target: TopologySocket, view: View) -> None:
        self.target = target
        self.name = view.name
        self._network = network
        self._clock = LoopClock()
        self._read = _taken(view, None, target)
        self._read_s = self._looked_s = self._clock.monotonic()
        self._lock = asyncio.Lock()
        self._problem = ""
        self._ended = False
        self._traces: dict[str, Trace] = {}

    # -- what a RunningTopology says -----------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Of its program."""
        return self.target.pid

    @property
    def read_at_s(self) -> float:
        """When it was as it is shown: seconds since 1970, by the clock of its program."""
        return self._read.view.now_s

    @property
    def started_s(self) -> float:
        """When it was submitted: seconds since 1970."""
        return self._read.view.started_s

    @property
    def state(self) -> State:
        """Its state."""
        state = State(self._read.view.state)
        return State.KILLED if self._ended and state not in OVER else state

    @property
    def degraded(self) -> str:
        """Why it is degraded, does not answer, or has ended."""
        return self._problem or self._read.view.degraded

    @property
    def topology(self) -> Topology:
        """Its graph: components without code."""
        return self._read.topology

    @property
    def config(self) -> Config:
        """Its settings."""
        return self._read.config

    @property
    def plan(self) -> Plan:
        """Its tasks."""
        return self._read.plan

    @property
    def snapshot_metrics(self) -> SnapshotMetrics | None:
        """With exactly once: its newest snapshot."""
        return self._read.metrics.snapshots

    def metrics(self) -> TopologyMetrics:
        """Counters of every component."""
        self._looked_s = self._clock.monotonic()
        return self._read.metrics

    def errors(self) -> list[ErrorReport]:
        """The last errors in user code, oldest first."""
        return list(self._read.reports.errors)

    def stalls(self) -> list[Stall]:
        """The last calls of user code that blocked its loop."""
        return list(self._read.reports.stalls)

    def backpressure(self) -> Backpressure:
        """Fill of the bolts, and paced spouts with the reason."""
        return self._read.view.pressure

    def workers(self) -> list[WorkerStatus]:
        """Its workers."""
        return list(self._read.view.workers)

    def traces(self) -> list[Trace]:
        """The tuple trees that were known when they were last read, the last one first (`refresh_traces`)."""
        return sorted(self._traces.values(), key=lambda trace: trace.emitted_at_s, reverse=True)

    @property
    def untraced(self) -> str:
        """Why no tuple tree can be traced; empty if they can."""
        return self._read.view.untraced

    # -- control -------------------------------------------------------------------------------------------------------

    async def activate(self) -> None:
        """Activate the spouts. ControlError, as for all orders, if it cannot be done."""
        await self._order("activate")

    async def deactivate(self) -> None:
        """Stop calling `next_tuple`; tuples that are under way are processed."""
        await self._order("deactivate")

    async def kill(self, wait_s: float | None = None) -> None:
        """Drain and end it. TimeoutError if it still drains after some seconds; it drains on."""
        if not (await self._order("kill", wait_s)).finished:
            raise TimeoutError(f"{self.target} is still being drained")

    async def snapshot(self, timeout_s: float | None = None) -> int:
        """Take a savepoint. Returns its number when it is committed; TimeoutError after `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            return (await self._order("snapshot", within_s=SNAPSHOT_S + READ_S)).number

    async def trace(self, component: str | None = None, timeout_s: float = 10.0) -> Trace:
        """Trace the next tuple tree that is complete, and passes the component. ControlError if there was none."""
        answer = await ask(self._network, self.target, TraceRequest(component or "", timeout_s))
        if not isinstance(answer, TraceResponse):
            raise ControlError(f"{self.target} answers with {type(answer).__name__}: do both run the same version?")
        self._keep([answer.trace])
        return answer.trace

    async def profile(self, seconds: float = 5.0) -> list[Profile]:
        """Sample all its processes for so long; 0.0: the profiles that are known there. ControlError."""
        answer = await ask(self._network, self.target, ProfileRequest(seconds))
        if not isinstance(answer, ProfileResponse):
            raise ControlError(f"{self.target} answers with {type(answer).__name__}: do both run the same version?")
        return list(answer.profiles)

    async def snapshots(self) -> list[ListedSnapshot]:
        """The snapshots, the oldest first."""
        return list((await self._order("snapshots", within_s=SNAPSHOT_S)).snapshots)

    async def update(self, settings: Config | Mapping[str, Setting]) -> Config:
        """Change settings; returns those that hold now. ConfigError."""
        given = settings.model_dump(exclude_unset=True) if isinstance(settings, Config) else dict(settings)
        await ask(self._network, self.target, UpdateRequest(given))
        await self._read_again()
        return self.config

    async def _order(
        self, order: OrderName, wait_s: float | None = None, *, within_s: float = ANSWER_S
    ) -> OrderResponse:
        answer = await ask(self._network, self.target, OrderRequest(order, wait_s), within_s)
        if not isinstance(answer, OrderResponse):
            raise ControlError(f"{self.target} answers with {type(answer).__name__}: do both run the same version?")
        if order != "snapshots":
            await self.refresh()
        return answer

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def is_looked_at(self) -> bool:
        """Was it read a moment ago?"""
        return not self._ended and self._clock.monotonic() - self._looked_s < LOOK_S

    async def refresh(self, max_age_s: float = 0.0) -> None:
        """Read it again, if what is known is older. An error is its `degraded`, or its end."""
        async with self._lock:
            if self._ended or self._clock.monotonic() - self._read_s < max_age_s:
                return
            try:
                await self._read_again()
            except (ControlError, ConfigError) as error:
                self._problem = str(error)
                if not self.target.is_there:
                    self.end()
            else:
                self._problem = ""
                if self.state in OVER:
                    self.end()

    async def refresh_traces(self) -> None:
        """Read which tuple trees were traced there. An error is its `degraded`: those that are known stay."""
        if self._ended:
            return
        known = tuple(trace.id for trace in self._traces.values() if trace.complete_s is not None)
        try:
            answer = await ask(self._network, self.target, TracesRequest(known), READ_S)
        except ControlError as error:
            self._problem = str(error)
            return
        if isinstance(answer, TracesResponse):
            self._keep(answer.traces)

    def _keep(self, traces: Iterable[Trace]) -> None:
        self._traces |= {trace.id: trace for trace in traces}
        for old in self.traces()[MOST_TRACES:]:
            del self._traces[old.id]

    def end(self) -> None:
        """Its program has ended it, or has ended itself: it stays as it was last."""
        self._ended = True
        self._problem = self._read.view.degraded if self.state is State.FAILED else f"{self.target} has ended"

    async def _read_again(self) -> None:
        view = await read_view(self._network, self.target, self._read.view.tag)
        self._read = _taken(view, self._read, self.target)
        self._read_s = self._clock.monotonic()


class RemoteTopologies:
    """The topologies that run in other programs of this user: all, or those named NAME or NAME@PID."""

    def __init__(self, network: Network, wanted: str = "") -> None:
        self._network = network
        self._wanted = wanted
        self._by_path: dict[str, RemoteTopology] = {}
        self._left_alone: set[str] = set()

    @property
    def topologies(self) -> Mapping[str, RemoteTopology]:
        """Those that run, and the last that have ended, by name; of several with one name by NAME@PID."""
        return {one.name: one for one in self._by_path.values()}

    async def scan(self) -> list[str]:
        """Find those that have begun, and those that have ended. Returns what there is to say about it."""
        words: list[str] = []
        sockets, _ = running_topologies()
        wanted = [one for one in sockets if not self._wanted or one.is_called(self._wanted)]
        there = {one.path for one in sockets}
        for path, known in self._by_path.items():
            if known.state not in OVER and path not in there:
                await known.refresh()
                if known.state not in OVER:
                    known.end()
                words.append(f"{known.target} has ended")
        self._left_alone &= there
        for target in wanted:
            if target.path not in self._by_path and target.path not in self._left_alone:
                try:
                    self._add(RemoteTopology(self._network, target, await read_view(self._network, target)))
                except ControlError as error:
                    self._left_alone.add(target.path)
                    words.append(str(error))
        return words

    async def refresh(self, max_age_s: float = 0.0, *, looked_at: bool = False) -> None:
        """Read all again whose data is older. `looked_at`: only those that are read."""
        async with asyncio.TaskGroup() as group:
            for one in list(self._by_path.values()):
                if one.is_looked_at or not looked_at:
                    group.create_task(one.refresh(max_age_s), name=f"read {one.name}")

    def _add(self, found: RemoteTopology) -> None:
        ended = [path for path, one in self._by_path.items() if one.state in OVER]
        same = [path for path in ended if self._by_path[path].target.name == found.target.name]
        for path in same or ended[: max(0, len(ended) - MOST_ENDED + 1)]:
            del self._by_path[path]
        if found.name in self.topologies:
            found.name = f"{found.name}@{found.pid}"
        self._by_path[found.target.path] = found


async def opened_remote(network: Network, wanted: str) -> RemoteTopology:
    """The topology named NAME or NAME@PID. ControlError lists those that run, or says why it cannot be shown."""
    target = find(wanted)
    return RemoteTopology(network, target, await read_view(network, target))


async def read_view(network: Network, target: TopologySocket, known: str = "") -> View:
    """Ask for a view. ControlError."""
    answer = await ask(network, target, ViewRequest(known=known), READ_S)
    if not isinstance(answer, ViewResponse):
        raise ControlError(f"{target} answers with {type(answer).__name__}: do both run the same version?")
    return opened(answer, target)


def _taken(view: View, before: _Read | None, target: TopologySocket) -> _Read:
    """What a view says. ControlError if it contradicts itself."""
    try:
        if before is None or before.view.graph != view.graph or before.view.tasks != view.tasks:
            topology = outlined(view.graph)
            plan = plan_with(topology, dict(view.tasks))
        else:
            topology, plan = before.topology, before.plan
        metrics = view.topology_metrics()
        config = Config.restored(dict(view.config), view.sources)
    except (ValueError, TypeError) as error:
        raise ControlError(f"{target} sends what cannot be shown ({error}): do both run the same version?") from error
    reports = view.reports or (before.reports if before is not None else Reports())
    return _Read(view, topology, config, plan, metrics, reports)
