"""Stand-ins: what the daemons of a counted cluster have in the place of processes and running topologies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from aiostorm.cluster.nimbus import PARENT_PROCESS, TopologyRecord
from aiostorm.cluster.supervisor import Key, Launch, SlotNote
from aiostorm.runtime import ProcessIdentity

Program = Callable[[str, asyncio.Event], Coroutine[Any, Any, None]]
"""(topology, SIGTERM) → what its parent does."""


class Processes:
    """The processes of one machine. Workers wait; parents run the program."""

    def __init__(self, group: asyncio.TaskGroup, program: Program) -> None:
        self.group = group
        self.program = program
        self.pids = 100

    async def take(self) -> Started:
        """A process that waits for its task."""
        self.pids += 1
        return Started(self, self.pids)

    def adopt(self, identity: ProcessIdentity) -> None:
        """There are none of before."""


class Started:
    """One process."""

    def __init__(self, processes: Processes, pid: int) -> None:
        self.identity = ProcessIdentity(1, pid, pid)
        self._processes = processes
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def assign(self, log_path: Path, arguments: Sequence[str]) -> Started:
        """Begin."""
        topology, process = arguments
        work = self._processes.program(topology, self._stop) if process == PARENT_PROCESS else self._until_terminated()
        self._task = self._processes.group.create_task(work, name=f"{topology} {process}")
        return self

    async def wait(self) -> int | None:
        """Its exit code."""
        if self._task is not None:
            await asyncio.wait([self._task])
        return 0

    def terminate(self) -> None:
        """SIGTERM."""
        self._stop.set()

    def kill(self) -> None:
        """SIGKILL."""
        if self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """It gets no task."""

    async def _until_terminated(self) -> None:
        await self._stop.wait()


class Notes:
    """Slot files."""

    def __init__(self) -> None:
        self._notes: dict[Key, SlotNote] = {}

    async def read(self) -> list[SlotNote]:
        """All."""
        return list(self._notes.values())

    async def write(self, note: SlotNote) -> None:
        """Note it."""
        self._notes[note.key] = note

    async def remove(self, key: Key) -> None:
        """It has ended."""
        self._notes.pop(key, None)


class Launching:
    """There is no code to fetch, and no log."""

    async def launch(self, key: Key, record: TopologyRecord) -> Launch:
        """Prepare a process."""
        return Launch(Path("log"), (key.topology, key.process))

    async def limit_logs(self, running: Collection[Key]) -> None:
        """No logs."""

    async def remove_unused(self, used: Collection[str]) -> None:
        """No code."""

    async def note_parents(self, addresses: Mapping[str, str]) -> None:
        """No worker looks for its parent."""

    async def note(self, key: Key, text: str) -> None:
        """No log."""

    async def remove_logs(self, used: Collection[str], now_s: float) -> None:
        """No logs."""


class Running:
    """A topology that runs until it is killed."""

    degraded = ""

    def __init__(self) -> None:
        self.state = _State("ACTIVE")
        self._ended = asyncio.Event()

    async def wait_finished(self) -> None:
        """It never finishes by itself."""
        await self._ended.wait()

    async def kill(self, wait_s: float | None = None) -> None:
        """End it."""
        self._ended.set()

    def errors(self) -> list[Any]:
        """There are none."""
        return []


class _State(str):
    """A state, as an enumeration has it."""

    __slots__ = ()

    @property
    def value(self) -> str:
        return str(self)


class Hosted:
    """A LocalCluster with one topology."""

    address = "host.example:40000"
    remote_names = ()

    def __init__(self) -> None:
        self.topologies: dict[str, Running] = {}

    def expect_remote(self, *names: Any, since: int) -> None:
        """No worker comes."""

    async def start(self) -> None:
        """Nothing to start."""

    async def submit(self, name: str, *arguments: Any, **options: Any) -> Running:
        """It runs after a second, as one with workers does."""
        await asyncio.sleep(1.0)
        running = self.topologies[name] = Running()
        return running

    async def stop(self, *, drain: bool) -> None:
        """Nothing to stop."""


def hosted() -> Any:
    """A cluster for a SubmittedTopology."""
    return cast(Any, Hosted())
