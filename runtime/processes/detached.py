"""Detached processes: they outlive their starter, which may adopt them when it runs again.

    take ─► a process that waits (`python -m MODULE ARGUMENTS`) ─► its identity is noted by the caller
                                                                ─► assign: one line ─► it begins its task
    starter ends before the line: the process reads the end of its standard input, and ends
    starter ends after the line:  the process lives on ─► adopt(identity)

1. A process has a session of its own, no parent watch, and no descriptor of its starter. What it prints before it has
   its task goes to `output`.
2. A waiting process has imported what its task needs. Some are always kept ready, and are soon replaced when used.
3. Its end is noticed by a descriptor of the process (pidfd); where there is none it is looked for, POLL_S apart. The
   exit code is known for own children only: an adopted process is another process's child.
4. No signal goes to another process with the same id: a pidfd is one process, and its identity is compared before.

From: daemontools' and systemd's supervision; pidfd_open(2).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ..errors import SpawnError
from ..files import OPEN_FLAGS, make_folders
from ..process_identity import ProcessIdentity
from .parent_watch import PARENT_WATCH

log = logging.getLogger(__name__)

POLL_S: Final = 0.1

SOON_S: Final = 1.0
"""Seconds after which a used spare is replaced: the process that uses it has begun then, and leaves a core to it."""

AGAIN_S: Final = 5.0
"""Seconds until a spare is tried again that could not be started, or has ended."""

MAX_LINE_BYTES: Final = 32 * 1024
"""Of the line with the task. A pipe takes it at once."""


class DetachedProcess:
    """A process that runs, or has run. A DetachedPool makes it. `own`: it is a child of this process."""

    def __init__(self, identity: ProcessIdentity, forget: Callable[[DetachedProcess], None], *, own: bool) -> None:
        self.identity = identity
        self._forget = forget
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int | None] = self._loop.create_future()
        self._pidfd = -1
        self._poll: asyncio.TimerHandle | None = None
        self._watch()

    @property
    def runs(self) -> bool:
        """Has it not ended, as far as this process has noticed?"""
        return not self._ended.done()

    async def wait(self) -> int | None:
        """Wait for its end: the exit code, minus the signal that ended it, or None if that is not known."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM). No effect if it has ended."""
        if self._is_there():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._pidfd >= 0:
                    signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)
                else:
                    os.kill(self.identity.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and the processes of its group now (SIGKILL). No effect if it has ended."""
        if self._is_there():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.identity.pid, signal.SIGKILL)  # it leads its session

    @property
    def memory_bytes(self) -> int | None:
        """What it has (see ProcessIdentity); None: that is not known."""
        return self.identity.memory_bytes

    def release(self) -> None:
        """Watch it no longer: it lives on."""
        self._unwatch()
        self._ended.cancel()

    def _is_there(self) -> bool:
        # The id of an own child is not used again before its end was noticed; of another process, it is compared.
        return self.runs and (self._own or not self.identity.has_ended)

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.identity.pid)
        except (AttributeError, OSError):  # it has ended; macOS; an old kernel; not allowed in this container
            self._look()
        else:
            if not self._own and self.identity.has_ended:  # the descriptor may be that of a later process
                self._end(None)
            else:
                self._loop.add_reader(self._pidfd, self._look)

    def _look(self) -> None:
        """Has it ended? If there is no descriptor, look again soon."""
        if self._own:
            try:
                pid, status = os.waitpid(self.identity.pid, os.WNOHANG)
            except ChildProcessError:  # the program ignores SIGCHLD: the system waits itself
                if self._pidfd >= 0 or self.identity.has_ended:
                    self._end(None)
                    return
            else:
                if pid:
                    self._end(os.waitstatus_to_exitcode(status))
                    return
        elif self._pidfd >= 0 or self.identity.has_ended:
            self._end(None)
            return
        if self._pidfd < 0:
            self._poll = self._loop.call_later(POLL_S, self._look)

    def _end(self, code: int | None) -> None:
        self._unwatch()
        if not self._ended.done():
            self._ended.set_result(code)

    def _unwatch(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._forget(self)


class WaitingProcess:
    """A process that waits for its task."""

    def __init__(self, process: DetachedProcess, standard_input: int) -> None:
        self._process = process
        self._input = standard_input

    @property
    def identity(self) -> ProcessIdentity:
        """Which process it is."""
        return self._process.identity

    @property
    def runs(self) -> bool:
        """Has it not ended?"""
        return self._process.runs

    async def assign(self, log_path: Path, arguments: Sequence[str]) -> DetachedProcess:
        """Give it its task: the arguments, and the file of its output. Once for each process.

        SpawnError if it has ended, or they are too long. If it fails, or is cancelled, the process ends.
        """
        line = json.dumps({"log": str(log_path), "arguments": list(arguments)}).encode() + b"\n"
        try:
            if len(line) > MAX_LINE_BYTES:
                raise SpawnError(f"the arguments have {len(line):,} bytes, and may have {MAX_LINE_BYTES:,}")
            if any("\0" in word for word in arguments):
                raise SpawnError("an argument contains a NUL")
            while line:
                try:
                    line = line[os.write(self._input, line) :]
                except BlockingIOError:
                    await self._writable()
        except OSError as error:
            raise SpawnError(f"process {self.identity.pid} has ended before it had a task: {error}") from error
        except BaseException:
            self._process.kill()
            raise
        finally:
            self.abandon()
        return self._process

    def abandon(self) -> None:
        """Close its standard input: without a task, it ends."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def end(self) -> None:
        """End it now, and wait for its end."""
        self.abandon()
        self._process.kill()
        await self._process.wait()

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        writable: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._input, _set, writable)
        try:
            await writable
        finally:
            loop.remove_writer(self._input)


class DetachedPool:
    """Starts processes with `python -m module arguments`, and adopts those of an earlier pool. Use it in `async with`.

    `output`: a file for what processes print before they have a task. `ready`: how many wait. Leaving the block ends
    them; processes with a task live on.
    """

    def __init__(self, module: str, arguments: Sequence[str], output: Path, *, ready: int = 1) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._output = output
        self._count = ready
        self._ready: list[WaitingProcess] = []
        self._processes: set[DetachedProcess] = set()
        self._changed = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._keeper: asyncio.Task[None]

    @property
    def ready(self) -> Sequence[WaitingProcess]:
        """Those that wait."""
        return [spare for spare in self._ready if spare.runs]

    async def take(self) -> WaitingProcess:
        """A process that waits for its task: a spare, or else a new one. SpawnError."""
        self._changed.set()
        while self._ready:
            spare = self._ready.pop(0)
            if spare.runs:
                return spare
            spare.abandon()
        return await self._start()

    def adopt(self, identity: ProcessIdentity) -> DetachedProcess | None:
        """A process that an earlier pool has started, if it still runs; None: it does not.

        One of another namespace (another container) cannot be seen or reached from here: None, too.
        """
        if identity.space != ProcessIdentity.own().space or identity.has_ended:
            return None
        process = self._kept(DetachedProcess(identity, self._forget, own=False))
        return process if process.runs else None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._keeper = self._group.create_task(self._keep(), name="spare process")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._keeper.cancel()
        try:
            await self._group.__aexit__(None, None, None)
        finally:
            for spare in self._ready:
                await spare.end()
            for process in list(self._processes):
                process.release()

    async def _keep(self) -> None:
        """There are always so many that wait."""
        while True:
            for spare in [spare for spare in self._ready if not spare.runs]:
                self._ready.remove(spare)
                spare.abandon()
                log.warning("a spare process (pid %d) has ended: see %s", spare.identity.pid, self._output)
                await asyncio.sleep(AGAIN_S)
            if len(self._ready) < self._count:
                try:
                    self._ready.append(await self._start())
                except SpawnError as error:
                    log.warning("no spare process: %s", error)
                    await asyncio.sleep(AGAIN_S)
                continue
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(SOON_S)

    async def _start(self) -> WaitingProcess:
        if not sys.executable:
            raise SpawnError("this Python does not know its own path (sys.executable): it is embedded in a program")
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        # In a thread: to start a process takes some milliseconds, more when memory is short.
        starting = asyncio.get_running_loop().run_in_executor(None, _popen, self._command, read_fd, self._output)
        try:
            pid = await asyncio.shield(starting)
        except asyncio.CancelledError:
            os.close(write_fd)  # it ends by itself
            starting.add_done_callback(self._reap)
            raise
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            os.close(write_fd)
            raise SpawnError(f"cannot start {' '.join(self._command)}: {error}") from error
        return WaitingProcess(self._noted(pid), write_fd)

    def _reap(self, starting: asyncio.Future[int]) -> None:
        """The call that has started it was cancelled: it is waited for, so that nothing of it stays."""
        if not starting.cancelled() and starting.exception() is None:
            self._noted(starting.result())

    def _noted(self, pid: int) -> DetachedProcess:
        return self._kept(DetachedProcess(ProcessIdentity.of(pid), self._forget, own=True))

    def _kept(self, process: DetachedProcess) -> DetachedProcess:
        if process.runs:
            self._processes.add(process)
        return process

    def _forget(self, process: DetachedProcess) -> None:
        self._processes.discard(process)
        self._changed.set()  # perhaps it was a spare


def _set(writable: asyncio.Future[None]) -> None:
    if not writable.done():
        writable.set_result(None)


def _popen(command: Sequence[str], standard_input: int, output: Path) -> int:
    """Start it; `standard_input` is closed here. In a thread."""
    try:
        environment = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8:backslashreplace", **os.environ}
        environment.pop(PARENT_WATCH, None)
        fd = open_log(output)
        try:
            started = subprocess.Popen(  # noqa: S603 - our own module, with this Python
                command,
                stdin=standard_input,
                stdout=fd,
                stderr=fd,
                env=environment,
                close_fds=True,
                start_new_session=True,
            )
        finally:
            os.close(fd)
    finally:
        os.close(standard_input)
    # Its end is waited for by its id; this object is not to warn that the process outlives it.
    started.returncode = 0
    return started.pid


def open_log(path: Path) -> int:
    """A descriptor of a file that output is appended to. The folder and the file are made (0700, 0600). OSError."""
    make_folders(str(path.parent), mode=0o700)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS, 0o600)
