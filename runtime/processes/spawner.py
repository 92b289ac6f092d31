"""Spawner: the only way to start a process. A seam: Python processes in reality, asyncio tasks in a simulation.

    child = await spawner.spawn("worker-6700", ["worker", "--port", "6700"])
    code = await child.wait()          child.terminate()  asks it to end          child.kill()  ends it and its children

1. A child has its own process group: signals to ours (Ctrl-C at a terminal) do not reach it by accident, and `kill`
   reaches the processes that it has started.
2. No shell sees the arguments. Its standard input is the given bytes, at most MAX_STDIN_BYTES, followed by the end of
   file. Use it for secrets: other users can see arguments and environments. Our open files are not inherited.
3. A child dies with its parent, however the parent ended: the child calls `die_with_parent()` first (see parent watch).
   Where the system cannot do that (Windows), the child runs until its lease expires.
4. Its output goes to `on_line` line by line, in pieces of at most MAX_LINE_BYTES: a child that prints without line ends
   takes no more memory than that.
5. `wait` returns as soon as the child has ended, after its last lines were reported. If a process that the child
   started keeps its output open, these lines are waited for at most LAST_LINES_S; then the output is closed.

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

from ..errors import SpawnError
from .parent_watch import ParentWatch

MAX_LINE_BYTES: Final = 8 * 1024
"""A longer line is reported in pieces."""

MAX_STDIN_BYTES: Final = 64 * 1024
"""The most bytes for a child's standard input."""

LAST_LINES_S: Final = 0.25
"""Seconds to read the output after a child's end, if processes that it started keep the output open."""


class Child(Protocol):
    """A started process."""

    @property
    def name(self) -> str:
        """The name it was started with, for people."""
        ...

    @property
    def pid(self) -> int:
        """Its process id. After `wait` has returned, another process may have the same id."""
        ...

    async def wait(self) -> int:
        """Wait for its end: the exit code, or minus the signal that ended it. May be called several times."""
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM). No effect if it has ended."""
        ...

    def kill(self) -> None:
        """End it and its children now (SIGKILL to its process group). No effect if it has ended."""
        ...


class Spawner(Protocol):
    """Starts processes."""

    async def spawn(self, name: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Child:
        """Start a process. SpawnError if it fails.

        `stdin` is its standard input, up to MAX_STDIN_BYTES; the process need not read it.
        """
        ...


class WaitingChild(Child, Protocol):
    """A child with an open standard input, where it waits for its task."""

    @property
    def runs(self) -> bool:
        """Has it not ended?"""
        ...

    def assign(self, name: str, stdin: bytes) -> None:
        """Give it its name and its standard input, which then ends."""
        ...


@dataclass(frozen=True, slots=True)
class ChildLine:
    """A line that a child has printed, without its line end; or a piece of a long line."""

    name: str
    pid: int
    stream: Literal["stdout", "stderr"]
    text: str


class PythonSpawner:
    """Starts `python -m <module> <arguments>` with the current Python.

    `on_line` is called in the event loop for each line that a child prints, and must not wait. In the child, output is
    unbuffered and UTF-8, unless the environment says otherwise.
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
        """Start a process (see Spawner). If the call is cancelled, no process is left behind.

        `environment` is its whole environment; None: this process's.
        """
        check_stdin(name, stdin)
        child = await self._start(name, arguments, environment, subprocess.PIPE if stdin else subprocess.DEVNULL)
        child.write_stdin(stdin)
        return child

    async def start_waiting(self, name: str, arguments: Sequence[str]) -> WaitingChild:
        """Start a process with an open standard input. SpawnError. If cancelled, no process is left behind."""
        return await self._start(name, arguments, None, subprocess.PIPE)

    async def _start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None, stdin: int
    ) -> _PythonChild:
        if not sys.executable:
            raise SpawnError("this Python does not know its own path (sys.executable): it is embedded in a program")
        if any("\0" in word for word in chain(arguments, *(environment or {}).items())):
            raise SpawnError(f"{name}: an argument or a variable contains a NUL")  # uvloop would cut it there
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
    """SpawnError if it is too long for a child's standard input. Every spawner calls this first."""
    if len(stdin) > MAX_STDIN_BYTES:
        raise SpawnError(
            f"{name}: {len(stdin):,} bytes for its standard input, but at most {MAX_STDIN_BYTES:,} are allowed"
        )


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


class _PythonChild(asyncio.SubprocessProtocol):
    """A child: asyncio calls it with the output and the end of the process, so it needs no asyncio task."""

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

    # -- called by its parent ----------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for its end: the exit code."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        if self.runs and self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.terminate()

    def kill(self) -> None:
        """End it and its children now."""
        if not self.runs or self._transport is None:
            return
        # macOS reports EPERM for a group whose processes have all ended and have not been waited for yet.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self.pid, signal.SIGKILL)  # the child leads its session, so its group has the same id

    def write_stdin(self, stdin: bytes) -> None:
        """Write its standard input. The child may end without reading it."""
        if stdin and self._transport is not None:
            pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
            pipe.write(stdin)
            pipe.close()  # after the data has been written

    def assign(self, name: str, stdin: bytes) -> None:
        """Give it its name and its standard input."""
        self.name = name
        self.write_stdin(stdin)

    @property
    def runs(self) -> bool:
        """Has it not ended?"""
        return self._transport is not None and self._transport.get_returncode() is None

    def abandon(self) -> None:
        """The call that started it was cancelled: no code will wait for the child."""
        self.kill()
        self._parent_watch.release()

    # -- called by asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)  # uvloop's is not a subclass
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
        # Both pipes and the process have ended: nothing more will come.
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
    """Splits bytes into lines; a line of more than `max_bytes` comes in pieces."""

    __slots__ = ("_max_bytes", "_rest")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are complete after `data`."""
        *lines, rest = (self._rest + data).split(b"\n")
        pieces = [piece for line in lines for piece in self._pieces(line.removesuffix(b"\r"))]
        *more, self._rest = self._pieces(rest)
        return [_text(piece) for piece in (*pieces, *more)]

    def end(self) -> list[str]:
        """The text after the last line end."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []

    def _pieces(self, line: bytes) -> Iterator[bytes]:
        while len(line) > self._max_bytes:
            cut = self._max_bytes
            while cut > self._max_bytes - 3 and line[cut] & 0xC0 == 0x80:
                cut -= 1  # not within a UTF-8 character
            yield line[:cut]
            line = line[cut:]
        yield line


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
