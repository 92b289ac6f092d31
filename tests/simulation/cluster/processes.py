"""Processes of simulated supervisors: they outlive who has started them, and can be adopted."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiostorm.cluster.nimbus import PARENT_PROCESS, TopologyRecord
from aiostorm.cluster.supervisor import Key, Launch, SlotNote
from aiostorm.runtime import ProcessIdentity, SpawnError
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

Program = Callable[[Process, Key, str], Coroutine[Any, Any, int]]
"""(process, what it is, name of the supervisor) → exit code."""


@dataclass(slots=True)
class Machines:
    """All processes that supervisors have started. `notes`: slot files, by supervisor: they survive it.

    `addresses`: (supervisor, topology) → where the parent listens, as workers there can read it. `several`: is each
    supervisor a node with an address of its own? `is_full`: is the disk of this supervisor full?
    """

    world: World
    program: Program
    by_pid: dict[int, tuple[Process, int]] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    targets: dict[int, tuple[str, int]] = field(default_factory=dict)
    notes: dict[str, dict[Key, SlotNote]] = field(default_factory=dict)
    addresses: dict[tuple[str, str], str] = field(default_factory=dict)
    several: bool = False
    is_full: Callable[[str], bool] = lambda supervisor: False
    fetched: set[tuple[str, str]] = field(default_factory=set)
    """Supervisor and code that is on its disk."""
    pids: int = 1000

    def new_pid(self) -> int:
        self.pids += 1
        return self.pids

    def runs(self, pid: int) -> bool:
        """Is it there, and the incarnation that had this id?"""
        found = self.by_pid.get(pid)
        return found is not None and found[0].alive and found[0].incarnation == found[1]

    def start(self, pid: int, key: Key, supervisor: str) -> None:
        """Start a process; SpawnError if its address is in use."""
        note = self.notes[supervisor].get(key)
        if note is None or note.identity.pid != pid:
            self.world.problem(f"{key} is started on {supervisor}, and no slot file says so")
        name = f"{key.topology}.{key.process}@{supervisor}"
        if key.process == PARENT_PROCESS and not self.several:  # all parents of a topology listen at one address
            name = key.topology
        process = self.world.processes.get(name)
        if process is not None and process.alive:
            raise SpawnError(f"{name} runs already")

        async def main(own: Process) -> None:
            own_pid = next(p for p, found in self.by_pid.items() if found == (own, own.incarnation))
            self.codes[own_pid] = await self.program(own, key, supervisor)

        if process is None:
            process = self.world.process(name, main)
        process.main = main
        self.by_pid[pid] = process, process.incarnation + 1
        process.start()


class SimRunning:
    """A process that runs, as its supervisor sees it."""

    def __init__(self, machines: Machines, pid: int, *, own: bool) -> None:
        self.identity = ProcessIdentity(0, pid, 1)
        self.memory_bytes: int | None = None
        self._machines = machines
        self._own = own

    async def wait(self) -> int | None:
        pid = self.identity.pid
        # Its end may come when who has asked is not there any more: nothing is woken.
        while self._machines.runs(pid):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return self._machines.codes.get(pid, -9) if self._own else None

    def terminate(self) -> None:
        process, _ = self._machines.by_pid[self.identity.pid]
        if self._machines.runs(self.identity.pid) and process.current.on_terminate is not None:
            process.loop.call_soon(process.current.on_terminate)

    def kill(self) -> None:
        process, _ = self._machines.by_pid[self.identity.pid]
        if self._machines.runs(self.identity.pid):
            process.kill("is killed by its supervisor")


class SimWaiting:
    """A process that waits for its task: until then there is nothing of it."""

    def __init__(self, machines: Machines, supervisor: str) -> None:
        self.identity = ProcessIdentity(0, machines.new_pid(), 1)
        self._machines = machines
        self._supervisor = supervisor

    async def assign(self, log_path: Path, arguments: Sequence[str]) -> SimRunning:
        self._machines.targets[self.identity.pid] = arguments[2], int(arguments[3])
        self._machines.start(self.identity.pid, Key(arguments[0], arguments[1]), self._supervisor)
        return SimRunning(self._machines, self.identity.pid, own=True)

    def abandon(self) -> None:
        """It has not begun."""


class SimProcesses:
    """Where a supervisor's processes come from."""

    def __init__(self, machines: Machines, supervisor: str) -> None:
        self._machines = machines
        self._supervisor = supervisor

    async def take(self) -> SimWaiting:
        await asyncio.sleep(0.05)
        return SimWaiting(self._machines, self._supervisor)

    def adopt(self, identity: ProcessIdentity) -> SimRunning | None:
        return SimRunning(self._machines, identity.pid, own=False) if self._machines.runs(identity.pid) else None


class Disk:
    """The disk of a supervisor: it may be full."""

    def __init__(self, machines: Machines, supervisor: str) -> None:
        self._machines = machines
        self._supervisor = supervisor

    async def write(self) -> None:
        """Write a file. OSError."""
        await asyncio.sleep(0.001)
        if self._machines.is_full(f"supervisor@{self._supervisor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class SimNotes:
    """The slot files of a supervisor."""

    def __init__(self, machines: Machines, supervisor: str) -> None:
        self._notes = machines.notes.setdefault(supervisor, {})
        self._write = Disk(machines, supervisor).write

    async def read(self) -> list[SlotNote]:
        return list(self._notes.values())

    async def write(self, note: SlotNote) -> None:
        await self._write()
        self._notes[note.key] = note

    async def remove(self, key: Key) -> None:
        self._notes.pop(key, None)


class SimLaunching:
    """Code is on the disk from its first start on; there is no log."""

    def __init__(self, machines: Machines, supervisor: str) -> None:
        self.addresses = machines.addresses
        self.supervisor = supervisor
        self._fetched = machines.fetched
        self._disk = Disk(machines, supervisor)

    async def note_parents(self, addresses: Mapping[str, str]) -> None:
        for topology, address in addresses.items():
            if address and self.addresses.get((self.supervisor, topology)) != address:
                await self._disk.write()
                self.addresses[self.supervisor, topology] = address

    async def launch(self, key: Key, record: TopologyRecord) -> Launch:
        if (self.supervisor, record.target) not in self._fetched:
            await self._disk.write()
            self._fetched.add((self.supervisor, record.target))
        return Launch(Path("log"), (key.topology, key.process, record.target, str(record.generation)))

    async def limit_logs(self, running: Collection[Key]) -> None:
        return

    async def remove_unused(self, used: Collection[str]) -> None:
        return

    async def remove_logs(self, used: Collection[str], now_s: float) -> None:
        return

    async def note(self, key: Key, text: str) -> None:
        return
