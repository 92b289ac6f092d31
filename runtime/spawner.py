"""Spawner: the one way to start a process. A seam: Python processes really, asyncio tasks in a simulation.

    child = await spawner.spawn("worker-6700", ["worker", "--port", "6700"])
    code = await child.wait()          child.terminate()  please end          child.kill()  end now, and all it started

1. A child is a process of its own with a process group of its own: what stops us (Ctrl-C at a terminal) does not reach
   it by accident, and `kill` reaches what it has started itself.
2. No shell sees the arguments. Its standard input is what it is given, at most MAX_STDIN_BYTES, and then at its end.
   That is the way for a secret: arguments and environments are seen by others. Our open files stay ours.
3. A child dies with its parent, however that ended: it calls `die_with_parent()` first of all (see parent watch).
   Where a system cannot do that (Windows) it lives on, until it notices by itself that nobody renews its lease.
4. What it prints comes line by line to `on_line`, in pieces of at most MAX_LINE_BYTES: a child that prints without an
   end of line takes no more memory than that.
5. `wait` tells the end at once. Lines that were printed before it have been told by then, unless something that the
   child started has kept its output open: then they are waited for at most LAST_LINES_S, and the output is closed.

From: Storm's supervisor, which starts workers (BasicContainer); Erlang's ports for the death of the parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess  # constants only: asyncio starts the process
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, Protocol, cast

from .errors import SpawnError
from .parent_watch import ParentWatch

MAX_LINE_BYTES: Final = 8 * 1024
"""A line that is longer comes in pieces."""

MAX_STDIN_BYTES: Final = 64 * 1024
"""What a child may be given to read, at most."""

LAST_LINES_S: Final = 0.25
"""How long output is read after the end of a child whose own children have kept it open."""


class Child(Protocol):
    """A process that was started here."""

    @property
    def name(self) -> str:
        """What it was started as: for people."""
        ...

    @property
    def pid(self) -> int:
        """Its process id. It may be another process's once `wait` has returned."""
        ...

    async def wait(self) -> int:
        """Wait for its end: the exit code, or minus the signal that ended it. Any number may wait, at any time."""
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM). Nothing happens if it has."""
        ...

    def kill(self) -> None:
        """End it now, and what it has started (SIGKILL to its process group). Nothing happens if it has ended."""
        ...


class Spawner(Protocol):
    """Starts processes."""

    async def spawn(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Child:
        """Start one. `environment` is the whole of it; None: this process's. SpawnError if it cannot be started.

        `stdin` is what it reads from its standard input, up to MAX_STDIN_BYTES; it need not read it.
        """
        ...


class WaitingChild(Child, Protocol):
    """One whose standard input is still open: it waits there to be told what to do."""

    @property
    def runs(self) -> bool:
        """Has it not ended?"""
        ...

    def assign(self, name: str, stdin: bytes) -> None:
        """Give it another name, and what it waits for; then its standard input ends."""
        ...


@dataclass(frozen=True, slots=True)
class ChildLine:
    """A line that a child has printed, without its end; or a piece of a long one."""

    name: str
    pid: int
    stream: Literal["stdout", "stderr"]
    text: str


class PythonSpawner:
    """Starts `python -m <module> <arguments>` with the Python that runs here.

    `on_line` is called in the event loop with each line that a child prints, and does not wait. In the child, output is
    not buffered and is UTF-8, unless the environment says otherwise.
    """

    def __init__(self, module: str, on_line: Callable[[ChildLine], None]) -> None:
        self._module = module
        self._on_line = on_line

    async def spawn(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Child:
        """Start one (see Spawner). Cancelled, it leaves no process behind."""
        check_stdin(name, stdin)
        child = await self._start(name, arguments, environment, subprocess.PIPE if stdin else subprocess.DEVNULL)
        child.write_stdin(stdin)
        return child

    async def start_waiting(self, name: str, arguments: Sequence[str]) -> WaitingChild:
        """Start one whose standard input stays open. SpawnError. Cancelled, it leaves no process behind."""
        return await self._start(name, arguments, None, subprocess.PIPE)

    async def _start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None, stdin: int
    ) -> _PythonChild:
        if not sys.executable:
            raise SpawnError("this Python does not know its own path (sys.executable): it is embedded in a program")
        if any("\0" in word for word in chain(arguments, *(environment or {}).items())):
            raise SpawnError(f"{name}: an argument or a variable has a NUL in it")  # uvloop would cut it there
        variables = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8:backslashreplace"}
        variables.update(os.environ if environment is None else environment)
        parent_watch = ParentWatch()
        child = _PythonChild(name, self._on_line, parent_watch)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: child,
                sys.executable,
                "-m",
                self._module,
                *arguments,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=parent_watch.added_to(variables),
                **parent_watch.start_options(),
                **_own_group(),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            parent_watch.release()
            raise SpawnError(f"{name}: cannot start {sys.executable} -m {self._module}: {error}") from error
        except BaseException:
            child.abandon()
            raise
        parent_watch.close_child_end()
        return child


def check_stdin(name: str, stdin: bytes) -> None:
    """SpawnError if it is more than a child is given. Every spawner calls it first."""
    if len(stdin) > MAX_STDIN_BYTES:
        raise SpawnError(f"{name}: {len(stdin):,} bytes for its standard input: at most {MAX_STDIN_BYTES:,}")


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


class _PythonChild(asyncio.SubprocessProtocol):
    """A child: asyncio calls it with what the process prints and when it ends, so no asyncio task is needed."""

    def __init__(self, name: str, on_line: Callable[[ChildLine], None], parent_watch: ParentWatch) -> None:
        self.name = name
        self.pid = 0
        self._on_line = on_line
        self._parent_watch = parent_watch
        self._lines = {1: Lines(), 2: Lines()}
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._last_lines: asyncio.TimerHandle | None = None

    # -- what its parent does ----------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for its end."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask it to end."""
        if self.runs and self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.terminate()

    def kill(self) -> None:
        """End it now, and what it has started."""
        if not self.runs or self._transport is None:
            return
        # macOS says EPERM of a group whose processes have all ended and are not waited for yet.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self.pid, signal.SIGKILL)  # its session began with it: the group has its id

    def write_stdin(self, stdin: bytes) -> None:
        """What it reads from its standard input. One that ends without reading it has simply not read it."""
        if stdin and self._transport is not None:
            pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
            pipe.write(stdin)
            pipe.close()  # after what was written

    def assign(self, name: str, stdin: bytes) -> None:
        """See WaitingChild."""
        self.name = name
        self.write_stdin(stdin)

    @property
    def runs(self) -> bool:
        """Has it not ended?"""
        return self._transport is not None and self._transport.get_returncode() is None

    def abandon(self) -> None:
        """Nobody will wait for it: it was being started when whoever wanted it was cancelled."""
        self.kill()
        self._parent_watch.release()

    # -- what asyncio tells ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)  # uvloop's is none by name
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        for text in self._lines[fd].feed(data):
            self._report_line(fd, text)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._lines:
            for text in self._lines[fd].end():
                self._report_line(fd, text)

    def process_exited(self) -> None:
        self._parent_watch.release()
        self._last_lines = self._loop.call_later(LAST_LINES_S, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        # Both pipes and the process have ended: there is no more.
        self._finish()

    def _finish(self) -> None:
        if self._last_lines is not None:
            self._last_lines.cancel()
        if self._ended.done() or self._transport is None:
            return
        for fd in self._lines:
            self.pipe_connection_lost(fd, None)
        code = self._transport.get_returncode()
        self._transport.close()
        self._ended.set_result(-1 if code is None else code)

    def _report_line(self, fd: int, text: str) -> None:
        try:
            self._on_line(ChildLine(self.name, self.pid, "stdout" if fd == 1 else "stderr", text))
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": f"on_line failed for a line of {self.name} (pid {self.pid})", "exception": error}
            )


class Lines:
    """Bytes in pieces of any size in, lines out; a line of more than `max_bytes` comes in pieces."""

    __slots__ = ("_max_bytes", "_rest")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are complete with `data`."""
        *lines, rest = (self._rest + data).split(b"\n")
        pieces = [piece for line in lines for piece in self._pieces(line.removesuffix(b"\r"))]
        *more, self._rest = self._pieces(rest)
        return [_text(piece) for piece in (*pieces, *more)]

    def end(self) -> list[str]:
        """What came after the last end of a line."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []

    def _pieces(self, line: bytes) -> Iterator[bytes]:
        while len(line) > self._max_bytes:
            cut = self._max_bytes
            while cut > self._max_bytes - 3 and line[cut] & 0xC0 == 0x80:
                cut -= 1  # not within a character of UTF-8
            yield line[:cut]
            line = line[cut:]
        yield line


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
