"""WorkerService: what a worker does for its parent: a part of one topology. Two actors, one for slow commands.

    setup actor    one after the other: load, connect, prepare, open, results, the end
    control actor  at once: metrics, mode of the spouts, idle reports, the death of a peer

1. A topology is imported by its import string, once, and only one that the worker was started for: its command line
   says what it may load and where it looks for modules. A message contains data, never code.
2. Code that differs from the parent's (see fingerprint) is refused, unless the worker was started with permission for
   it. A topology with another shape is always refused: task ids would mean different things.
3. If user code or the configuration makes a command impossible, the answer is CommandFailed. Any other error ends the
   worker with its traceback.

From: Storm's Worker and WorkerState; theirs read the assignment from ZooKeeper.
"""

from __future__ import annotations

import asyncio
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...actors import Actor, ActorEscalatedError, ActorSystem
from ...runtime import LIVENESS
from ...tasks import describe
from ...topology import Config, ConfigError, Topology, TopologyError
from ...transport import UnsendableError, pack_value
from ..distributed_idle import IdleReport
from ..fingerprint import code_of, fingerprint
from ..hosting import Hosting
from ..idle_detection import IdleGoal
from ..local_runtime import LocalRuntime
from ..messages import (
    CODE_DIFFERS,
    PIECE_BYTES,
    RESULT_ITEMS,
    CommandFailed,
    Connect,
    FetchResult,
    Finish,
    GatherResults,
    GetIdleReport,
    GetStatus,
    LoadTopology,
    Open,
    PeerDied,
    PeerEnded,
    PeerRestarted,
    Prepare,
    StatusReport,
    TaskGaveUp,
    UpdateConfig,
)
from ..node_router import NodeRouter
from ..targets import TargetError, is_named, load_topology

MAX_PENDING_SHOWN: Final = 1000
"""The largest number of message ids in a report."""

MAX_REPORT_BYTES: Final = 192 * 1024
"""The bytes of message ids, of errors and of stalls in a report, each: together they must fit into one payload."""

MAX_TEXT_CHARS: Final = 20_000
"""The longest text of an error."""

MAX_MODULES, MAX_NAME_CHARS = 2000, 200
"""How many modules are in a CommandFailed for different code, and how much of each name."""

PROBLEMS: Final = 10
"""How many problems of a configuration or a topology are reported."""

ID_BYTES: Final = 4096
"""A larger message id is shown as text, cut to SHOWN_CHARS."""

SHOWN_CHARS: Final = 200

ANSWERED_S: Final = 0.02
"""How long after its last answer a worker ends. The link sends what it has before it closes."""

Loader = Callable[[str, tuple[str, ...]], Topology]
"""(target, arguments) → topology. TargetError."""


def load(target: str, arguments: tuple[str, ...]) -> Topology:
    """Load a topology by its import string."""
    return load_topology(target, arguments, own=True)[1]


class WorkerService:
    """The part of a topology that this worker runs. `over` is done when the worker may end."""

    def __init__(
        self,
        system: ActorSystem,
        node: NodeRouter,
        listen: str,
        send_to_parent: Callable[[object], None],
        loader: Loader = load,
        targets: Sequence[str] = (),
        *,
        any_code: bool = False,
    ) -> None:
        self.worker = node.name
        self.life = int.from_bytes(system.rng.token_bytes(8), "big") >> 1
        self.part: LocalRuntime | None = None
        self.liveness = LIVENESS  # of the part, once there is one
        self.over: asyncio.Future[None] = system.loop.create_future()
        self._failed: asyncio.Future[None] = system.loop.create_future()
        self._given_up: TaskGaveUp | None = None
        self.commands_received = 0
        """Counts the commands of the parent: signs of life."""
        self.results: dict[int, bytes] = {}
        self._system = system
        self._node = node
        self._listen = listen
        self._loaded: tuple[LoadTopology, Topology] | None = None
        self._listening: dict[str, str] = {}
        self._send_to_parent = send_to_parent
        self._loader = loader
        self._targets = targets
        self._any_code = any_code
        self._load_called = False

    @property
    def is_idle(self) -> bool:
        """Has it not loaded a topology yet?"""
        return self._loaded is None

    # -- setup actor ---------------------------------------------------------------------------------------------------

    def load(self, order: LoadTopology) -> CommandFailed | None:
        """Import the topology. This may take long and blocks the event loop."""
        if self._load_called:
            text = f"worker {self.worker} has already loaded a topology: a process loads one only"
            return CommandFailed("WorkerError", (text,))
        self._load_called = True
        if not is_named(order.target, self._targets):
            return CommandFailed("TargetError", (_not_named(order.target, self.worker, self._targets),))
        try:
            topology = self._loader(order.target, order.arguments)
        except TargetError as error:
            return CommandFailed("TargetError", (str(error)[:MAX_TEXT_CHARS],))
        if order.code and not self._any_code:
            code = code_of(order.target)
            if fingerprint(code) != order.code:
                shown = [text[:MAX_NAME_CHARS] for pair in sorted(code.items()) for text in pair]
                return CommandFailed(CODE_DIFFERS, tuple(shown[: 2 * MAX_MODULES]))
        if (shape := shape_of(topology)) != order.shape:
            return CommandFailed("TopologyError", (_other_version(order.target, self.worker, shape, order.shape),))
        self._loaded = order, topology
        return None

    async def connect(self, order: Connect) -> str | CommandFailed:
        """Listen, open the links and make the tasks, in one step, so that the tasks exist when peers send to them."""
        if self._loaded is None:
            raise RuntimeError("a worker loads a topology before any other command")
        address = await self._node.listen(self._listen)
        load, topology = self._loaded  # with settings that have arrived meanwhile
        for peer, there in order.peers.items():
            # The peer may have been restarted while this command was under way.
            self._node.link(peer, None if there is None else self._listening.get(peer, there))
        hosting = Hosting(self.worker, load.placement, self._node, order.nodes)
        try:
            config = Config(**load.config)
            self.liveness = config.liveness
            self.part = LocalRuntime(self._system, load.name, topology, config, gave_up=self._gave_up, hosting=hosting)
        except (TopologyError, ConfigError) as error:
            return CommandFailed(
                type(error).__name__, tuple(text[:MAX_TEXT_CHARS] for text in error.problems[:PROBLEMS])
            )
        return address

    async def prepare(self) -> TaskGaveUp | None:
        """Prepare the bolts. Returns early if one of them has failed for good."""
        await self._have().start_bolts(self._failed)
        return self._given_up

    async def open(self) -> TaskGaveUp | None:
        """Open the spouts. As `prepare`."""
        await self._have().start_spouts(self._failed)
        return self._given_up

    async def gather(self) -> tuple[tuple[int, int], ...] | CommandFailed:
        """Gather and encode the results of the tasks. Returns their sizes."""
        part = self._have()
        self.results.clear()
        for task in part.task_set.tasks:
            try:
                value = await part.result_of(task)
            except Exception as error:  # of user code, reported as such
                place = f"{task.task.component}[{task.task.task_id}].result()"
                return CommandFailed("WorkerError", (f"{place} failed: {describe(error)}",))
            if value is None:
                continue
            try:
                self.results[task.task.task_id] = _packed(value)
            except UnsendableError as error:
                place = f"what {task.task.component}[{task.task.task_id}].result() returns cannot be sent"
                return CommandFailed("UnsendableError", (f"{place}: {error}",))
        return tuple((task, len(value)) for task, value in self.results.items())

    def fetch(self, order: FetchResult) -> bytes:
        """A piece of a result."""
        return self.results[order.task][order.offset : order.offset + PIECE_BYTES]

    async def finish(self, order: Finish) -> StatusReport:
        """End the tasks; returns the last status."""
        if self.part is not None:
            await (self.part.kill() if order.at_once else self.part.stop())
        asyncio.get_running_loop().call_later(ANSWERED_S, self.end)
        return self.status(GetStatus(order.errors, order.stalls, order.events, pending=True))

    def end(self) -> None:
        """The process may end."""
        if not self.over.done():
            self.over.set_result(None)

    # -- control actor -------------------------------------------------------------------------------------------------

    def status(self, order: GetStatus) -> StatusReport:
        """Set the mode, and report the status."""
        self._set_mode(order.mode)
        if self.part is None:
            return StatusReport()
        reports = self.part.reports
        tasks = tuple(task for component in reports.metrics().values() for task in component.tasks)
        pressure = None
        if self.part.task_set.tasks.master is not None:
            view = reports.backpressure()
            pressure = replace(view, events=_last(view.events, reports.event_count - order.events))
        return StatusReport(
            tasks,
            _last(reports.errors(), reports.error_count - order.errors),
            reports.error_count,
            _last(reports.stalls(), reports.stall_count - order.stalls),
            reports.stall_count,
            self._pending() if order.pending else {},
            pressure,
            reports.event_count,
        )

    async def update(self, order: UpdateConfig) -> None:
        """Apply settings, or keep them for tasks that are not made yet."""
        if self._loaded is not None:
            load, topology = self._loaded
            self._loaded = replace(load, config=order.config), topology
        if self.part is not None:
            await self.part.update(Config(**order.config))

    def peer_ended(self, order: PeerEnded | PeerDied) -> None:
        """The process of a peer has ended. Another one with its name will start."""
        exchange = self.part.task_set.tasks.exchange if self.part is not None else None
        if exchange is not None and isinstance(order, PeerEnded):
            exchange.peer_ended(order.peer, order.life)
        elif exchange is not None:
            exchange.peer_died(order.peer, order.life)

    def peer_restarted(self, order: PeerRestarted) -> None:
        """A peer listens again: dial it now."""
        self._listening[order.peer] = order.address
        self._node.redial(order.peer, order.address)

    def idle_report(self, order: GetIdleReport) -> IdleReport:
        """Set the mode, and report whether there is work here."""
        self._set_mode(order.mode)
        part = self.part
        if part is None:
            return IdleReport(self.worker, self.life, quiet=False)
        goal = IdleGoal(order.finished, order.held, order.quiet_s, away=order.away)
        exchange = part.task_set.tasks.exchange
        counts = ({}, {}) if exchange is None else (exchange.sent, exchange.received)
        sent, received = ({p: n for p, n in count.items() if p not in order.away} for count in counts)
        return IdleReport(self.worker, self.life, part.is_quiet_now(goal), part.reports.activity, sent, received)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _set_mode(self, mode: str) -> None:
        match mode:
            case "":  # unchanged
                return
            case "active" | "inactive" | "ended":
                if self.part is not None:
                    self.part.set_mode(mode)
            case _:
                raise ValueError(f"spouts have no such mode: {mode!r:.50}")

    def _have(self) -> LocalRuntime:
        if self.part is None:
            raise RuntimeError("a worker loads a topology before any other command")
        return self.part

    def _pending(self) -> Mapping[str, tuple[Any, ...]]:
        shown: dict[str, tuple[Any, ...]] = {}
        left, left_bytes = MAX_PENDING_SHOWN, MAX_REPORT_BYTES
        for component, ids in (self.part.reports.pending() if self.part is not None else {}).items():
            found: list[Any] = []
            for message_id in ids[:left]:
                shown_id, size_bytes = _sendable(message_id)
                left_bytes -= size_bytes
                if left_bytes < 0:
                    break
                found.append(shown_id)
            shown[component] = tuple(found)
            left -= len(found)
        return shown

    def _gave_up(self, path: str, error: BaseException) -> None:
        cause = error.__cause__ if isinstance(error, ActorEscalatedError) and error.__cause__ else error
        text = "".join(traceback.format_exception(cause))[-20_000:]
        report = TaskGaveUp(path, describe(cause), text)
        self._send_to_parent(report)
        if not self._failed.done():
            self._given_up = report
            self._failed.set_result(None)


def shape_of(topology: Topology) -> str:
    """What must be equal in parent and workers, so that task ids mean the same."""
    return topology.describe()


def _not_named(target: str, worker: str, targets: Sequence[str]) -> str:
    return (
        f"worker {worker} was not started for {target:.500}, but for {', '.join(targets) or 'nothing'}: start it with "
        f"--target {shlex.quote(target)[:500]}"
    )


def _other_version(target: str, worker: str, found: str, expected: str) -> str:
    return (
        f"{target} is not the same topology in worker {worker} and in its parent; install the same version in both. "
        f"There:\n{found}\nHere:\n{expected}"
    )


def _packed(value: Any) -> bytes:
    """Encode a result. It is for people, so a Counter may become a dict. UnsendableError."""
    try:
        return pack_value(value, RESULT_ITEMS)
    except UnsendableError:
        return pack_value(_plain(value), RESULT_ITEMS)


def _plain(value: Any) -> Any:
    """The value with plain dict, list, tuple and set for their subclasses."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind(_plain(item) for item in value)
    return value


def _sendable(message_id: Any) -> tuple[Any, int]:
    """A message id as it is reported, and its size in bytes."""
    try:
        size_bytes = len(pack_value(message_id))
    except UnsendableError:
        size_bytes = MAX_REPORT_BYTES
    if size_bytes <= ID_BYTES:
        return message_id, size_bytes
    shown = repr(message_id)[:SHOWN_CHARS]
    return shown, 4 * len(shown)


def _last(items: Sequence[Any], new: int) -> tuple[Any, ...]:
    """The last `new` items, as many as fit into a report."""
    found: list[Any] = []
    left_bytes = MAX_REPORT_BYTES
    for one in reversed(items[-new:] if new > 0 else ()):
        left_bytes -= len(pack_value(one))
        if left_bytes < 0:
            break
        found.append(one)
    return tuple(reversed(found))


class SetupActor(Actor):
    """Executes the commands that may be slow, one after the other."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    async def receive(self, message: Any) -> Any:
        service = self._service
        match message:
            case LoadTopology():
                return service.load(message)
            case Connect():
                return await service.connect(message)
            case Prepare():
                return await service.prepare()
            case Open():
                return await service.open()
            case GatherResults():
                return await service.gather()
            case FetchResult():
                return service.fetch(message)
            case Finish():
                return await service.finish(message)
        raise TypeError(f"a setup actor has no such command: {message!r}")


class ControlActor(Actor):
    """Answers its commands at once."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    def receive(self, message: Any) -> Any:
        self._service.commands_received += 1
        match message:
            case GetStatus():
                return self._service.status(message)
            case UpdateConfig():
                return self._service.update(message)
            case GetIdleReport():
                return self._service.idle_report(message)
            case PeerEnded() | PeerDied():
                return self._service.peer_ended(message)
            case PeerRestarted():
                return self._service.peer_restarted(message)
        raise TypeError(f"a control actor has no such command: {message!r}")
