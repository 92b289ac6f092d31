"""Running: the processes of a supervisor, as its slots decide (slots.py).

    Start ─► launch: code, folders ─► a waiting process ─► slot file ─► its task ─► runs ─► its end ─► slot file removed
    adopted: slot file ─► runs …
    with cgroups: … slot file ─► its cgroup, with limits ─► its task …         … its end ─► what the system says

1. A slot file is there before the process has its task: after a kill at any moment, the next supervisor knows all
   processes that do something.
2. Whatever cannot be prepared is the end of a start: it is said, and tried again.
3. When this ends, processes live on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...runtime import AiostormError, ProcessIdentity
from ..changes import left_until
from .failures import Failures
from .slot_files import SlotNote
from .slots import Decision, Failing, Forgotten, Key, Kill, Recovered, Rests, Slots, Start, Terminate, why_of

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..nimbus import FailedProcess
    from .cgroups import Limits
    from .launching import Launch
    from .wanted import Wanted

log = logging.getLogger("aiostorm.supervisor")


class Process(Protocol):
    """A process that runs."""

    @property
    def identity(self) -> ProcessIdentity:
        """Which process it is."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """What it has in memory; None: that is not known."""
        ...

    async def wait(self) -> int | None:
        """Wait for its end: the exit code, minus a signal, or None if it is not known."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it now."""
        ...


class Waiting(Protocol):
    """A process that waits for its task."""

    @property
    def identity(self) -> ProcessIdentity:
        """Which process it is."""
        ...

    async def assign(self, log_path: Path, arguments: Sequence[str]) -> Process:
        """Give it its task. SpawnError."""
        ...

    def abandon(self) -> None:
        """It gets none: it ends."""
        ...


class Processes(Protocol):
    """Where processes come from (see runtime.processes.DetachedPool)."""

    async def take(self) -> Waiting:
        """A process that waits for its task. SpawnError."""
        ...

    def adopt(self, identity: ProcessIdentity) -> Process | None:
        """A process that was started before, if it still runs."""
        ...


class SlotNotes(Protocol):
    """Which processes were started (see SlotFiles)."""

    async def read(self) -> list[SlotNote]:
        """All that are noted. OSError."""
        ...

    async def write(self, note: SlotNote) -> None:
        """Note it. OSError."""
        ...

    async def remove(self, key: Key) -> None:
        """It has ended."""
        ...


class Isolation(Protocol):
    """What keeps a process to its limits (see CgroupTree)."""

    async def begin(self, key: Key, pid: int, limits: Limits) -> None:
        """Before it has its task. OSError."""
        ...

    async def ended(self, key: Key, pid: int) -> str:
        """Why the system ended it; empty: it did not."""
        ...

    async def keep(self, running: Iterable[tuple[Key, int]]) -> None:
        """These run, and are adopted."""
        ...

    async def tidy(self) -> None:
        """Remove what could not be removed before."""
        ...


class NoIsolation:
    """Limits are only those that a process sets for itself (rlimit)."""

    async def begin(self, key: Key, pid: int, limits: Limits) -> None:
        pass

    async def ended(self, key: Key, pid: int) -> str:
        return ""

    async def keep(self, running: Iterable[tuple[Key, int]]) -> None:
        pass

    async def tidy(self) -> None:
        pass


class Running:
    """The processes. `launch`: what one is started with. `group`: the tasks that watch them are born there.

    `note`: writes a line into the log of a process.
    """

    def __init__(
        self,
        processes: Processes,
        notes: SlotNotes,
        launch: Callable[[Key], Awaitable[Launch]],
        clock: Clock,
        group: asyncio.TaskGroup,
        isolation: Isolation,
        note: Callable[[Key, str], Awaitable[None]],
    ) -> None:
        self._processes = processes
        self._notes = notes
        self._launch = launch
        self._clock = clock
        self._group = group
        self._isolation = isolation
        self._note = note
        self._slots = Slots()
        self._failures = Failures()
        self._running: dict[Key, Process] = {}
        self._changed = asyncio.Event()
        self._noting = asyncio.Lock()

    @property
    def keys(self) -> Collection[Key]:
        """The processes that run now."""
        return self._running.keys()

    async def left(self) -> int:
        """How many processes the next supervisor finds: those that are noted. (One may just have ended.)"""
        try:
            return sum(note.rest is None for note in await self._notes.read())
        except OSError:
            return len(self._running)

    @property
    def failed(self) -> tuple[FailedProcess, ...]:
        """Processes that do not stay alive here, and those that did not some minutes ago."""
        return self._failures.named(self._clock.monotonic())

    async def adopt(self) -> None:
        """Adopt what an earlier supervisor has started. Before anything else. OSError."""
        for note in await self._notes.read():
            if note.rest is not None:
                self._slots.adopt_rest(note.key, note.rest)
                continue
            process = self._processes.adopt(note.identity)
            if process is None:
                await self._notes.remove(note.key)
                continue
            log.info("%s (pid %d) is adopted", note.key, note.identity.pid)
            self._slots.adopt(note.key, note.identity.pid, note.generation)
            self._running[note.key] = process
            self._group.create_task(self._until_end(note.key, process), name=str(note.key))
        try:
            await self._isolation.keep([(key, process.identity.pid) for key, process in self._running.items()])
        except OSError as error:
            log.warning("old cgroups cannot be removed: %s", error)

    def see(self, wanted: Wanted) -> None:
        """What is wanted now."""
        self._failures.see(wanted.assigned, self._clock.monotonic())
        self._follow(self._slots.see(wanted, self._clock.monotonic()))

    def end_too_large(self, allowed_bytes: Callable[[Key], int]) -> dict[Key, str]:
        """Kill the processes that have more memory than they may; 0: it is not limited. Returns why, for people."""
        found: dict[Key, str] = {}
        for key, process in self._running.items():
            allowed = allowed_bytes(key)
            has = process.memory_bytes if allowed else None
            if has is not None and has > allowed:
                why = f"it has {has / 1024**2:,.0f} MiB of memory, and may have {allowed / 1024**2:,.0f} MiB"
                log.error("%s (pid %d) is killed: %s (aiostorm submit --worker-memory)", key, process.identity.pid, why)
                process.kill()
                found[key] = why
        return found

    async def run(self) -> None:
        """Do what time brings."""
        while True:
            due_s = self._slots.due_s
            within_s = None if due_s is None else left_until(due_s, self._clock.monotonic())
            try:
                async with asyncio.timeout(within_s):
                    await self._changed.wait()
            except TimeoutError:
                self._follow(self._slots.tick(self._clock.monotonic()))
            self._changed.clear()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _follow(self, decisions: list[Decision]) -> None:
        self._changed.set()
        for decision in decisions:
            key = decision.key
            match decision:
                case Start():
                    self._group.create_task(self._start(key, decision.generation), name=str(key))
                case Terminate():
                    log.info("%s (pid %d) is asked to end: %s", key, self._running[key].identity.pid, decision.why)
                    self._running[key].terminate()
                case Kill():
                    log.warning("%s (pid %d) is killed: %s", key, self._running[key].identity.pid, decision.why)
                    self._running[key].kill()
                case Failing():
                    log.error("%s does not stay alive: %s. It is started again and again", key, decision.why)
                    self._failures.failing(key, decision.why)
                case Recovered():
                    log.info("%s stays alive again", key)
                    self._failures.recovered(key)
                case Rests():
                    log.info("%s has ended in order, and is not started again before a rebalance", key)
                case Forgotten():
                    self._group.create_task(self._forget(key), name=str(key))

    async def _start(self, key: Key, generation: int) -> None:
        try:
            process = await self._started(key, generation)
        except (AiostormError, OSError) as error:
            log.warning("%s cannot be started: %s", key, error)
            await self._notes.remove(key)
            self._follow(self._slots.not_started(key, str(error), self._clock.monotonic()))
            return
        if process is None:
            self._follow(self._slots.withdrawn(key, self._clock.monotonic()))
            return
        log.info("%s (pid %d) is started, for generation %d", key, process.identity.pid, generation)
        self._running[key] = process
        self._follow(self._slots.started(key, process.identity.pid, self._clock.monotonic()))
        await self._until_end(key, process)

    async def _started(self, key: Key, generation: int) -> Process | None:
        """The process; None: it is not wanted any more. AiostormError, OSError."""
        launch = await self._launch(key)
        waiting = await self._processes.take()
        pid = waiting.identity.pid
        try:
            if not self._slots.wants(key, generation):
                waiting.abandon()
                return None
            async with self._noting:
                await self._notes.write(SlotNote(key, generation, waiting.identity))
            await self._isolation.begin(key, pid, launch.limits)
            return await waiting.assign(launch.log, launch.arguments)
        except (AiostormError, OSError):
            waiting.abandon()
            await self._isolation.ended(key, pid)
            raise
        except BaseException:  # the next supervisor removes its cgroup
            waiting.abandon()
            raise

    async def _until_end(self, key: Key, process: Process) -> None:
        code = await process.wait()
        why = await self._isolation.ended(key, process.identity.pid)
        if why:
            log.error("%s (pid %d) has ended: %s (aiostorm submit --worker-memory)", key, process.identity.pid, why)
            await self._note(key, f"{why} (aiostorm submit --worker-memory)")
        else:
            log.info("%s (pid %d) has ended: %s", key, process.identity.pid, why_of(code))
        if (rest := self._slots.rest_after(key, code)) is None:
            await self._notes.remove(key)
        else:
            await self._note_rest(SlotNote(key, rest.generation, process.identity, rest))
        del self._running[key]
        self._follow(self._slots.ended(key, code, self._clock.monotonic(), rest, why))

    async def _note_rest(self, note: SlotNote) -> None:
        """A supervisor that cannot note it starts that parent again when it is itself started again: no more."""
        try:
            await self._notes.write(note)
        except OSError as error:
            log.warning("it cannot be noted that %s has ended in order: %s", note.key, error.strerror or error)
            await self._notes.remove(note.key)

    async def _forget(self, key: Key) -> None:
        async with self._noting:  # and not the note of the next process
            await self._notes.remove(key)
