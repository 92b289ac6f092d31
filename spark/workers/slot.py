"""Slot: the program of a Spark task that runs one worker until the worker ends.

    job of one task ─► Python worker of Spark: this ─► child: `aiostorm worker …`, as everywhere
         ▲ ends with it    │ ═ link ═ parent: lines, heartbeats, its end; terminate, kill
         │                 ╰── checks every TICK_S: does Spark's daemon run? is the parent connected?

1. The worker is a child process: it has its own signals, process group and modules, and nothing of it is left in this
   Python process, which Spark reuses. It dies with this process (parent watch), however that ends: Spark cancels a task
   by SIGKILL.
2. The slot has its own link to the parent: it reports the worker's output, its heartbeats while user code blocks the
   worker's loop, and its end, as the parent does for its own children.
3. It ends its worker when the parent cannot be reached for LEASE_S, and when Spark's daemon has ended (the executor has
   died; on some systems nothing else shows it). Nothing is left on an executor.
4. The worker's output also goes to the executor's standard error, without prefixes.
5. The worker is started first: the imports for the link to the parent take a second.
6. Another attempt of the same task (Spark's own retry) ends at once: the parent decides about restarts.

From: Storm's supervisor and its slots.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import platform
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...actors import Actor, ActorSystem, Ref
from ...cluster import WORKER, plain_line
from ...runtime import LIVENESS, AiostormError
from ...runtime.processes import Child, ChildLine, PythonSpawner
from .launch_spec import ANY_HOST, LaunchSpec

if TYPE_CHECKING:  # their import takes a second: the worker is started first
    from ...transport import Node, Security

log = logging.getLogger("aiostorm.spark")

TICK_S: Final = 0.2
LEASE_S: Final = LIVENESS.slot_timeout_s
"""How long a slot runs without a connection to its parent."""

JOIN_S: Final = LIVENESS.slot_join_timeout_s
REPORT_S: Final = 2.0
"""The time for the last messages."""

LINES: Final = 1000
"""Lines buffered for the parent; older ones are dropped, and counted."""

AT_ONCE: Final = 100

NO_PARENT: Final = 69


def run_slot(values: Mapping[str, Any]) -> dict[str, Any]:
    """Run the task from its start to its worker's end. Blocking; it has its own event loop."""
    spec = LaunchSpec.from_dict(values)
    found = version()
    if found != spec.version:
        raise RuntimeError(
            f"aiostorm {found} is on the executor {platform.node()}, and {spec.version} on the driver: install the "
            "same there, or let SparkWorkers(ship=True) bring it"
        )
    logging.basicConfig(level=logging.WARNING)
    with _in_folder(spec.folder), asyncio.Runner() as runner:
        code, why = runner.run(_Slot(spec).run_worker())
    return {"code": code, "why": why}


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Use the driver's current directory, if it exists, and restore it for the next task of this process."""
    before = os.getcwd()
    if folder and os.path.isdir(folder):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def version() -> str:
    """The version of aiostorm on this machine."""
    return str(importlib.import_module(__name__.partition(".")[0]).__version__)


class _Slot(Actor):
    """The slot of one incarnation of a worker."""

    def __init__(self, spec: LaunchSpec) -> None:
        self._spec = spec
        self._child: Child | None = None
        self._lines: deque[tuple[str, str]] = deque(maxlen=LINES)
        self._dropped = 0
        self._has_lines = asyncio.Event()
        self._daemon = os.getppid()
        self._killed = ""
        self._parent: Ref

    def receive(self, message: Any) -> None:
        from .messages import SlotKill

        if not isinstance(message, SlotKill):
            raise TypeError(f"a slot does not understand {message!r:.200}")
        if message.at_once:
            self._kill("")
        elif self._child is not None:
            self._child.terminate()

    async def run_worker(self) -> tuple[int, str]:
        """Run the worker to its end. Returns its exit code, and the reason if it did not end by itself."""
        spec = self._spec
        child = self._child = await PythonSpawner("aiostorm", self._line).spawn(
            spec.worker, _command(spec), environment=_environment(), stdin=_secret(spec)
        )
        try:
            return await self._linked(child)
        finally:
            child.kill()

    async def _linked(self, child: Child) -> tuple[int, str]:
        """Connect to the parent, and supervise the worker."""
        from ...transport import Node, open_network
        from .messages import SLOT, SLOTS, SlotReady, register

        register()
        spec = self._spec
        async with (
            open_network(spec.slot, _security(spec), role=WORKER, roles=(spec.parent_name,)) as network,
            ActorSystem(spec.slot) as system,
            Node(spec.slot, network, system) as node,
        ):
            link = node.link(spec.parent_name, spec.parent, role=spec.parent_name)
            node.offer(SLOT, system.spawn(self, SLOT), to=(spec.parent_name,))
            self._parent = node.ref(spec.parent_name, SLOTS)
            try:
                wanted = await self._parent.ask(SlotReady(spec.slot, os.getpid(), platform.node()), timeout_s=JOIN_S)
            except AiostormError as error:
                node.lose(spec.parent_name, "it does not answer")
                return NO_PARENT, f"no parent at {spec.parent}: {link.last_error or error}"
            if wanted:
                await self._with_worker(child, node)
            node.lose(spec.parent_name, "the slot has ended")
            return (await child.wait() if wanted else 0), self._killed

    async def _with_worker(self, child: Child, node: Node) -> None:
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_lines(), name="lines")
            ended = group.create_task(child.wait(), name="worker")
            await self._watch(ended, node)
            sending.cancel()
        link = node.state(self._spec.parent_name)
        if link is not None and link.established:
            await self._report_end(ended.result())

    async def _watch(self, ended: asyncio.Task[int], node: Node) -> None:
        """Wait until the worker has ended; kill it without Spark's daemon or the parent."""
        alone_ticks = 0
        while not ended.done():
            await asyncio.wait((ended,), timeout=TICK_S)
            link = node.state(self._spec.parent_name)
            alone_ticks = 0 if link is not None and link.established else alone_ticks + 1
            if os.getppid() != self._daemon:
                self._kill("the executor has ended")
            elif alone_ticks * TICK_S >= LEASE_S:
                self._kill(f"the parent could not be reached for {LEASE_S:g} s")

    def _kill(self, why: str) -> None:
        self._killed = self._killed or why
        if self._child is not None:
            self._child.kill()

    # -- what the worker prints --------------------------------------------------------------------------------------

    def _line(self, line: ChildLine) -> None:
        plain = plain_line(line.text)
        if plain:
            sys.stderr.write(f"{line.name}: {plain}\n")
            sys.stderr.flush()
        self._dropped += len(self._lines) == LINES
        self._lines.append((line.stream, line.text))
        self._has_lines.set()

    async def _send_lines(self) -> None:
        while True:
            await self._has_lines.wait()
            await self._send_some_lines()

    async def _send_some_lines(self) -> None:
        from .messages import SlotLines

        lines = [self._lines.popleft() for _ in range(min(len(self._lines), AT_ONCE))]
        if self._dropped:
            lines.append(("stderr", f"({self._dropped} lines before this one were dropped: too many at once)"))
            self._dropped = 0
        if not self._lines:
            self._has_lines.clear()
        try:
            await self._parent.ask(SlotLines(self._spec.slot, tuple(lines)), timeout_s=LEASE_S)
        except AiostormError as error:
            log.debug("%d lines were not sent: %s", len(lines), error)

    async def _report_end(self, code: int) -> None:
        from .messages import SlotEnded

        try:
            async with asyncio.timeout(REPORT_S):
                while self._lines:
                    await self._send_some_lines()
                await self._parent.ask(SlotEnded(self._spec.slot, code, self._killed), timeout_s=REPORT_S)
        except (AiostormError, TimeoutError) as error:
            log.debug("%s: its end was not reported: %s", self._spec.slot, error)


def _security(spec: LaunchSpec) -> Security:
    """The credentials of the spec. CredentialsError if the file or the directory cannot be used here."""
    from ...transport import Credentials, Security

    if spec.is_file:
        return Security(Credentials.from_file(spec.credentials), None, spec.insecure)
    if not spec.credentials:
        return Security(None, None, spec.insecure)
    found = Security.from_directory(spec.credentials)
    return Security(found.credentials, found.tls, spec.insecure)


def _secret(spec: LaunchSpec) -> bytes:
    """The token, which the worker reads from its standard input."""
    return Path(spec.credentials).read_bytes() if spec.is_file else b""


def _command(spec: LaunchSpec) -> list[str]:
    """The worker's command line, completed for this machine."""
    host = spec.host or platform.node()
    command = [f"{host}{word[1:]}" if word.startswith(f"{ANY_HOST}:") else word for word in spec.command]
    if spec.is_file:
        command.append("--credentials-from-stdin")
    elif spec.credentials:
        command += ["--credentials", spec.credentials]
    return command + (["--insecure"] if spec.insecure else [])


def _environment() -> dict[str, str]:
    """The worker's environment, with this process' module path: Spark has added the files of the session to it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
