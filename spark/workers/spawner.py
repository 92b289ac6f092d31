"""Slot spawner: starts workers in Spark tasks. For the parent it is a Spawner, and the workers are children.

    spawn ─► link for the slot, job ─► (a core is free) ─► SlotReady ─► lines, heartbeats … ─► SlotEnded, or the job's
                                         end │ not within WAIT_S: reports the capacity, and what to change
    kill  ─► SlotKill, and the job group is cancelled

1. An incarnation of a worker is a job. It ends with the first of: the slot's message, the job's end.
2. Errors that every job would have (unusable credentials, a given session that has ended) are raised by the next
   `spawn`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...actors import Actor
from ...runtime import LIVENESS, AiostormError
from ...runtime.processes import Child, ChildLine
from .launch_spec import LaunchSpec
from .messages import SLOT, SLOTS, SlotEnded, SlotKill, SlotLines, SlotReady, register

if TYPE_CHECKING:
    from ...transport import Node
    from ..calls import SparkCalls
    from .jobs import SlotJobs, SlotOutcome

log = logging.getLogger("aiostorm.spark")

WAIT_S: Final = 10.0
"""A slot that has not started after this time waits for a core: that is logged."""

CANCEL_S: Final = LIVENESS.slot_cancel_timeout_s

KILLED: Final = -9

MakeSpec = Callable[[str, str, Sequence[str]], LaunchSpec]
"""(slot, worker, arguments of its command line) → launch spec."""


class SlotSpawner:
    """The parent's side of all slots. `capacity`: describes Spark's executors and cores (blocking)."""

    def __init__(
        self,
        jobs: SlotJobs,
        calls: SparkCalls,
        make_spec: MakeSpec,
        capacity: Callable[[], str],
        on_line: Callable[[ChildLine], None],
        node: Node,
    ) -> None:
        register()
        self._jobs = jobs
        self._calls = calls
        self._make_spec = make_spec
        self._capacity = capacity
        self._on_line = on_line
        self._node = node
        self._children: dict[str, _SlotChild] = {}
        self._incarnations = 0
        self._prefix = f"aiostorm-{node.system.rng.token_bytes(4).hex()}-"
        self._final: AiostormError | None = None
        node.offer(SLOTS, node.system.spawn(_SlotListener(self), SLOTS))

    async def spawn(self, name: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Child:
        """Start a worker (see Spawner); it runs when a core is free, with the executor's environment."""
        if stdin:
            raise ValueError("a worker on an executor has no standard input")
        if self._final is not None:
            raise self._final
        self._incarnations += 1
        slot = f"{name}.slot-{self._incarnations}"
        child = _SlotChild(name, slot, self)
        self._children[slot] = child
        self._node.link(slot)
        spec = self._make_spec(slot, name, arguments)
        group, values = self._prefix + slot, spec.to_dict()
        self._jobs.start(group, f"aiostorm: {name}", values, lambda outcome: self._job_ended(slot, outcome))
        self._node.system.guard(self._report_waiting(child), name=f"{slot}: a core")
        return child

    # -- what slots and jobs say -------------------------------------------------------------------------------------

    def ready(self, report: SlotReady) -> bool:
        """A slot starts its worker. Whether it is still wanted."""
        child = self._children.get(report.slot)
        if child is None or child.was_killed:
            return False
        child.began.set()
        child.pid = report.pid
        log.info("%s is in a slot on %s", child.name, report.node)
        return True

    def lines(self, report: SlotLines) -> None:
        child = self._children.get(report.slot)
        if child is not None:
            for stream, text in report.lines:
                self._on_line(ChildLine(child.name, child.pid, "stdout" if stream == "stdout" else "stderr", text))

    def ended(self, report: SlotEnded) -> None:
        self._worker_ended(report.slot, report.code, report.why)

    def _job_ended(self, slot: str, outcome: SlotOutcome) -> None:
        if slot in self._children and outcome.final is not None:
            self._final = outcome.final
        self._worker_ended(slot, outcome.code, outcome.why)
        self._node.lose(slot, f"{slot} has ended")  # not before: its last messages are answered

    def _worker_ended(self, slot: str, code: int, why: str) -> None:
        child = self._children.pop(slot, None)
        if child is None:
            return
        child.began.set()
        if why and not child.was_killed:
            self._on_line(ChildLine(child.name, child.pid, "stderr", f"its slot has ended: {why}"))
        child.end(KILLED if child.was_killed else code)

    # -- inside ------------------------------------------------------------------------------------------------------

    def send_kill(self, slot: str, message: SlotKill) -> None:
        """Send a SlotKill, if the slot is connected; for `at_once` also cancel its job."""
        guard = self._node.system.guard
        link = self._node.state(slot)
        if link is not None and link.established:
            guard(self._send(slot, message), name=f"{slot}: kill")
        if message.at_once:
            guard(self._cancel(slot), name=f"{slot}: cancel")

    async def _send(self, slot: str, message: SlotKill) -> None:
        try:
            await self._node.ref(slot, SLOT).ask(message, timeout_s=2.0)
        except AiostormError as error:
            log.debug("%s did not get its kill message: %s", slot, error)

    async def _cancel(self, slot: str) -> None:
        """Cancel the job, which then ends. If Spark does not answer, the slot is given up after CANCEL_S."""
        child = self._children.get(slot)
        try:
            async with asyncio.timeout(CANCEL_S):
                await self._calls.run(self._jobs.cancel, self._prefix + slot)
                if child is not None:
                    await child.wait()
        except Exception as error:  # py4j has many errors for a missing JVM
            log.debug("%s could not be cancelled: %r", slot, error)
            self._worker_ended(slot, KILLED, "")

    async def _report_waiting(self, child: _SlotChild) -> None:
        while not child.began.is_set():
            try:
                async with asyncio.timeout(WAIT_S):
                    await child.began.wait()
            except TimeoutError:
                try:
                    capacity = await self._calls.run(self._capacity)
                except Exception as error:  # of py4j
                    log.debug("no answer from Spark: %s", error)
                    continue
                why = "it may wait for a free core, or its Python is slow to start"
                text = f"no message of its slot for {WAIT_S:g} s, {why}: {capacity}"
                self._on_line(ChildLine(child.name, 0, "stderr", text))


class _SlotChild:
    """A Child: a worker in a slot."""

    def __init__(self, name: str, slot: str, spawner: SlotSpawner) -> None:
        self.name = name
        self.pid = 0
        self.began = asyncio.Event()
        self.was_killed = False
        self._slot = slot
        self._spawner = spawner
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        if not self._ended.done():
            self._spawner.send_kill(self._slot, SlotKill(at_once=False))

    def kill(self) -> None:
        if not self._ended.done() and not self.was_killed:
            self.was_killed = True
            self._spawner.send_kill(self._slot, SlotKill(at_once=True))

    def end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)


class _SlotListener(Actor):
    """The actor that receives the messages of slots."""

    def __init__(self, spawner: SlotSpawner) -> None:
        self._spawner = spawner

    def receive(self, message: Any) -> Any:
        match message:
            case SlotReady():
                return self._spawner.ready(message)
            case SlotLines():
                return self._spawner.lines(message)
            case SlotEnded():
                return self._spawner.ended(message)
        raise TypeError(f"no slot sends {message!r:.200}")
