"""A machine in virtual time: its processes are objects, which outlive the supervisors that start them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from aiostorm.cluster.nimbus import TopologyRecord
from aiostorm.cluster.supervisor import Key, Launch, SlotNote
from aiostorm.runtime import ProcessIdentity, SpawnError


class Machine:
    """The processes of a machine. `obeys`: a process ends this long after SIGTERM, in seconds; None: never."""

    def __init__(self) -> None:
        self.obeys: Callable[[Key], float | None] = lambda key: 0.1
        self.processes: dict[int, FakeProcess] = {}
        self.started: list[tuple[Key, int]] = []
        self.broken = ""
        self._pids = 100

    def running(self) -> dict[Key, int]:
        """Key → pid; fails if two processes are of one key."""
        found: dict[Key, int] = {}
        for pid, process in self.processes.items():
            if process.key is not None and process.runs:
                assert process.key not in found, "two processes of one key"
                found[process.key] = pid
        return found

    def new(self) -> FakeProcess:
        if self.broken:
            raise SpawnError(self.broken)
        self._pids += 1
        process = self.processes[self._pids] = FakeProcess(self, self._pids)
        return process

    def end(self, key: Key, code: int) -> None:
        self.processes[self.running()[key]].end(code)


class FakeProcess:
    """One of them, with and without a task."""

    def __init__(self, machine: Machine, pid: int) -> None:
        self.identity = ProcessIdentity(1, pid, pid)
        self.key: Key | None = None
        self.signals: list[str] = []
        self.memory_bytes: int | None = 100
        self._machine = machine
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def runs(self) -> bool:
        return not self._ended.done()

    async def wait(self) -> int | None:
        return await asyncio.shield(self._ended)

    def end(self, code: int) -> None:
        if self.runs:
            self._ended.set_result(code)

    def terminate(self) -> None:
        self.signals.append("TERM")
        assert self.key is not None
        delay_s = self._machine.obeys(self.key)
        if delay_s is not None:
            asyncio.get_running_loop().call_later(delay_s, self.end, 143)

    def kill(self) -> None:
        self.signals.append("KILL")
        self.end(-signal.SIGKILL)

    async def assign(self, log_path: Path, arguments: Sequence[str]) -> FakeProcess:
        self.key = Key(*arguments)
        self._machine.started.append((self.key, self.identity.pid))
        return self

    def abandon(self) -> None:
        if self.key is None:
            self.end(0)


class FakeProcesses:
    """What one supervisor uses."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def take(self) -> FakeProcess:
        await asyncio.sleep(0.01)
        return self._machine.new()

    def adopt(self, identity: ProcessIdentity) -> FakeProcess | None:
        process = self._machine.processes.get(identity.pid)
        return process if process is not None and process.runs else None


class FakeNotes:
    """Slot files that outlive supervisors."""

    def __init__(self) -> None:
        self.notes: dict[Key, SlotNote] = {}

    async def read(self) -> list[SlotNote]:
        return list(self.notes.values())

    async def write(self, note: SlotNote) -> None:
        await asyncio.sleep(0)
        self.notes[note.key] = note

    async def remove(self, key: Key) -> None:
        self.notes.pop(key, None)


class FakeLaunching:
    """Launches whose arguments are the key. `fetch_s`: how long the code takes."""

    def __init__(self) -> None:
        self.fetch_s = 0.0
        self.used: list[Collection[str]] = []
        self.kept: list[Collection[str]] = []
        self.limited: list[Collection[Key]] = []
        self.targets: list[str] = []
        self.noted: list[tuple[Key, str]] = []
        self.parents: list[dict[str, str]] = []
        self.disk_full = False

    async def launch(self, key: Key, record: TopologyRecord) -> Launch:
        await asyncio.sleep(self.fetch_s)
        self.targets.append(record.target)
        return Launch(Path("/log"), tuple(key))

    async def note_parents(self, addresses: Mapping[str, str]) -> None:
        if self.disk_full:
            raise OSError("no space left on device")
        self.parents.append(dict(addresses))

    async def limit_logs(self, running: Collection[Key]) -> None:
        self.limited.append(running)

    async def remove_unused(self, used: Collection[str]) -> None:
        self.used.append(used)

    async def remove_logs(self, used: Collection[str], now_s: float) -> None:
        self.kept.append(used)

    async def note(self, key: Key, text: str) -> None:
        self.noted.append((key, text))
