"""TopologyRuntime: what runs a topology: tasks in this process, or workers.

    RunningTopology ─► TopologyRuntime ─┬─ LocalRuntime ─► task set ─► tasks
                                        └─ DistributedRuntime ─► worker handles ═ workers: a LocalRuntime in each

1. A runtime makes no decisions about the topology: it starts, controls and ends the tasks on request, and reports.
2. It calls `gave_up` when a task has failed for good: at any time, perhaps more than once.
3. Its reports stay readable after its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from ..backpressure import Backpressure
    from ..metrics import TopologyMetrics, Trace
    from ..runtime import Profile, Stall
    from ..tasks import ErrorReport
    from ..topology import Config, MessageId, Plan, Result
    from .idle_detection import IdleGoal

OnTaskGaveUp = Callable[[str, BaseException], None]
"""(path of a task, error): the task has failed for good."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The state of a worker. `phase`: STARTING, RUNNING, BACKOFF, STOPPING or ENDED; `degraded`: why, or empty."""

    name: str
    pid: int
    phase: str
    tasks: tuple[int, ...]
    restarts: int
    degraded: str = ""


Mode = Literal["inactive", "active", "ended"]
"""Of spouts: they rest, they emit, or they have ended for good."""


class RuntimeReports(Protocol):
    """What a runtime reports of its topology; readable after its end, too."""

    def metrics(self) -> TopologyMetrics:
        """The latest metrics."""
        ...

    def errors(self) -> list[ErrorReport]:
        """The last ones, oldest first."""
        ...

    def stalls(self) -> list[Stall]:
        """The last ones, oldest first."""
        ...

    def pending(self) -> dict[str, list[MessageId]]:
        """Spout component → pending message ids."""
        ...

    def backpressure(self) -> Backpressure:
        """The latest state."""
        ...

    def profiles(self) -> list[Profile]:
        """The last profiles, the last one first."""
        ...

    def traces(self) -> list[Trace]:
        """The sampled tuple trees, the last one first."""
        ...

    def workers(self) -> list[WorkerStatus]:
        """The workers; empty if all tasks are in this process."""
        ...

    @property
    def degraded(self) -> str:
        """Why it is degraded; empty if it is not."""
        ...


class TopologyRuntime(Protocol):
    """What runs the tasks of one topology: in this process, or on workers."""

    @property
    def plan(self) -> Plan:
        """The plan with all tasks."""
        ...

    @property
    def reports(self) -> RuntimeReports:
        """What it reports."""
        ...

    @property
    def mode(self) -> Mode:
        """The mode of the spouts."""
        ...

    def set_mode(self, mode: Mode) -> None:
        """Change the mode of the spouts; once they have ended, nothing changes."""
        ...

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Prepare all bolts, then open all spouts. Returns early when `ended` is done."""
        ...

    async def update(self, config: Config) -> None:
        """Change the settings, which are already checked."""
        ...

    async def want_traces(self, spouts: Sequence[str], count: int) -> None:
        """The next `count` trees of each task of these spouts are sampled."""
        ...

    async def profile(self, seconds: float) -> list[Profile]:
        """Sample where all processes are, for so long. One whose event loop is blocked gives the profile of that."""
        ...

    async def fresh_traces(self) -> list[Trace]:
        """The sampled tuple trees, with all that was kept until now; of a worker that does not answer, as reported."""
        ...

    async def set_log_level(self, logger: str, level: str) -> None:
        """Set it in the processes of the workers; both are already checked, and set in this one."""
        ...

    async def results(self, broken: Callable[[], None]) -> dict[str, list[Result]]:
        """Component → the results of its tasks that are not None. Waits for tasks that are being built again.

        `broken` raises if that is in vain.
        """
        ...

    async def wait_quiet(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        """Wait until the goal is reached. `broken` raises if that is impossible."""
        ...

    def wake(self) -> None:
        """Wake all waiting callers: the topology has failed or ended."""
        ...

    async def stop(self) -> None:
        """Stop in order."""
        ...

    async def kill(self) -> None:
        """Kill all tasks."""
        ...

    def abort(self) -> None:
        """As `kill`, without waiting. A repeated call does nothing."""
        ...
