"""WorkerService: what a worker does for its parent: one part of one topology. Two actors, one for what is slow.

    setup actor  one after the other: load, connect, prepare, open, results, the end
    control actor  at once: metrics, steering, is it quiet?, a peer's death

1. A topology is imported by its import string, once, and only one that the worker was started for: on its own command
   line stand what it may load and where it looks for modules. What is in a message is data, never code.
2. Code that is not the parent's (see fingerprint) is refused, unless the worker was started for any; a topology that
   looks different here always is: task ids would mean different things.
3. What the user's code or configuration makes impossible is answered with CommandFailed. Any other error ends the
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
from ...backpressure import Backpressure
from ...runtime import LIVENESS
from ...tasks import describe
from ...topology import Config, ConfigError, Topology, TopologyError
from ...transport import UnsendableError, pack_value
from ..distributed_idle import IdleReport
from ..fingerprint import code_of, fingerprint
from ..hosting import Hosting
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
from ..runtimes import LocalRuntime
from ..targets import TargetError, is_named, load_topology

PENDING_SHOWN: Final = 1000
"""Message ids that a worker tells of, at most."""

TOLD_BYTES: Final = 192 * 1024
"""Of message ids, of errors, of stalls: so much of each at a time. All of it has to go into one payload."""

SAID_CHARACTERS: Final = 20_000
"""Of a text that says why something cannot be done."""

SAID_MODULES, SAID_NAME = 2000, 200
"""Of what a topology's code is: so many are told, and so much of each."""

PROBLEMS: Final = 10
"""Of a configuration or a topology that are told."""

ID_BYTES: Final = 4096
"""A message id that is larger is shown as text, cut to SHOWN characters."""

SHOWN: Final = 200

ANSWERED_S: Final = 0.02
"""So long after its last answer a worker ends. The link sends what it has before it closes."""

Loader = Callable[[str, tuple[str, ...]], Topology]
"""(target, arguments) → topology. TargetError."""


def load(target: str, arguments: tuple[str, ...]) -> Topology:
    """By import string."""
    return load_topology(target, arguments, own=True)[1]


class WorkerService:
    """The part that a worker has, once it was told which. `over` is done when it was told to end."""

    def __init__(
        self,
        system: ActorSystem,
        node: NodeRouter,
        listen: str,
        tell_parent: Callable[[object], None],
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
        self.loading = False
        self._failed: asyncio.Future[None] = system.loop.create_future()
        self._given_up: TaskGaveUp | None = None
        self.mode = "inactive"
        self.heard = 0
        """Counts the parent's words."""
        self.results: dict[int, bytes] = {}
        self._system = system
        self._node = node
        self._listen = listen
        self._loaded: tuple[LoadTopology, Topology] | None = None
        self._listening: dict[str, str] = {}
        self._tell_parent = tell_parent
        self._loader = loader
        self._targets = targets
        self._any_code = any_code
        self._ordered = False

    @property
    def is_idle(self) -> bool:
        """Was it told nothing yet?"""
        return self._loaded is None

    # -- setup actor ---------------------------------------------------------------------------------------------------

    def load(self, order: LoadTopology) -> CommandFailed | None:
        """Import. It may take long, and nothing else runs meanwhile."""
        if self._ordered:
            told = f"worker {self.worker} was told before what to load: that is done once in a life"
            return CommandFailed("WorkerError", (told,))
        self._ordered = True
        if not is_named(order.target, self._targets):
            return CommandFailed("TargetError", (_not_named(order.target, self.worker, self._targets),))
        try:
            topology = self._loader(order.target, order.arguments)
        except TargetError as error:
            return CommandFailed("TargetError", (str(error)[:SAID_CHARACTERS],))
        if order.code and not self._any_code:
            code = code_of(order.target)
            if fingerprint(code) != order.code:
                said = [text[:SAID_NAME] for pair in sorted(code.items()) for text in pair]
                return CommandFailed(CODE_DIFFERS, tuple(said[: 2 * SAID_MODULES]))
        if (shape := shape_of(topology)) != order.shape:
            return CommandFailed("TopologyError", (_other_version(order.target, self.worker, shape, order.shape),))
        self._loaded = order, topology
        return None

    async def connect(self, order: Connect) -> str | CommandFailed:
        """Listen; open the links and make the tasks, in one step: what peers send finds somebody who takes it."""
        if self._loaded is None:
            raise RuntimeError("a worker is told to load before anything else")
        address = await self._node.listen(self._listen)
        load, topology = self._loaded  # other settings may have come meanwhile
        for peer, there in order.peers.items():
            # It may have begun anew while this order was under way.
            self._node.link(peer, None if there is None else self._listening.get(peer, there))
        hosting = Hosting(self.worker, load.placement, self._node, order.nodes)
        try:
            config = Config(**load.config)
            self.liveness = config.liveness
            self.part = LocalRuntime(self._system, load.name, topology, config, gave_up=self._gave_up, hosting=hosting)
        except (TopologyError, ConfigError) as error:
            return CommandFailed(
                type(error).__name__, tuple(text[:SAID_CHARACTERS] for text in error.problems[:PROBLEMS])
            )
        return address

    async def prepare(self) -> TaskGaveUp | None:
        """Bolts. Returns early if one of them was given up."""
        await self._have().start_bolts(self._failed)
        return self._given_up

    async def open(self) -> TaskGaveUp | None:
        """Spouts. As `prepare`."""
        await self._have().start_spouts(self._failed)
        return self._given_up

    async def gather(self) -> tuple[tuple[int, int], ...] | CommandFailed:
        """Results of the tasks, packed."""
        part = self._have()
        self.results.clear()
        for task in part.task_set.tasks:
            try:
                value = await part.result_of(task)
            except Exception as error:  # the user's, and reported as that
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
        """A piece."""
        return self.results[order.task][order.offset : order.offset + PIECE_BYTES]

    async def finish(self, order: Finish) -> StatusReport:
        """End the part; the last look at it."""
        if self.part is not None:
            await (self.part.kill() if order.at_once else self.part.stop())
        asyncio.get_running_loop().call_later(ANSWERED_S, self.end)
        return self.look(GetStatus(order.errors, order.stalls, order.events, pending=True))

    def end(self) -> None:
        """The process may end."""
        if not self.over.done():
            self.over.set_result(None)

    # -- control actor -------------------------------------------------------------------------------------------------

    def look(self, order: GetStatus) -> StatusReport:
        """How it is, in that mode."""
        if order.mode:
            self.steer(order.mode)
        part = self.part
        if part is None:
            return StatusReport()
        tasks = tuple(task for component in part.metrics().values() for task in component.tasks)
        count, stall_count = part.task_set.errors.count, part.stall_count
        return StatusReport(
            tasks,
            _last(part.errors(), count - order.errors),
            count,
            _last(part.stalls(), stall_count - order.stalls),
            stall_count,
            self._pending() if order.pending else {},
            *self._pressure(part, order.events),
        )

    def steer(self, mode: str) -> None:
        """Let the spouts emit, or not, or never again."""
        if mode == self.mode or self.part is None:
            return
        self.mode = mode
        if mode == "ended":
            self.part.end_spouts()
        else:
            self.part.set_active(mode == "active")

    async def update(self, order: UpdateConfig) -> None:
        """Other settings, for what is there and for what is made of them."""
        if self._loaded is not None:
            load, topology = self._loaded
            self._loaded = replace(load, config=order.config), topology
        if self.part is not None:
            await self.part.update(Config(**order.config))

    def peer_ended(self, order: PeerEnded | PeerDied) -> None:
        """What is on its way to it is lost. Another of that name will come."""
        exchange = self.part.task_set.exchange if self.part is not None else None
        if exchange is not None and isinstance(order, PeerEnded):
            exchange.peer_ended(order.peer, order.life)
        elif exchange is not None:
            exchange.peer_died(order.peer, order.life)

    def peer_back(self, order: PeerRestarted) -> None:
        """It listens again: dial now, not when it is time to try again."""
        self._listening[order.peer] = order.address
        self._node.redial(order.peer, order.address)

    def is_quiet(self, order: GetIdleReport) -> IdleReport:
        """Is there nothing to do here, in that mode?"""
        self.steer(order.mode)
        part = self.part
        if part is None:
            return IdleReport(self.worker, self.life, quiet=False)
        quiet = part.is_quiet_now(finished=order.finished, held=order.held, quiet_s=order.quiet_s)
        exchange = part.task_set.exchange
        sent, received = ({}, {}) if exchange is None else (exchange.sent, exchange.received)
        return IdleReport(self.worker, self.life, quiet, part.activity, sent, received)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _pressure(self, part: LocalRuntime, told: int) -> tuple[Backpressure | None, int]:
        master = part.task_set.master
        if master is None:
            return None, 0
        view = master.view()
        return replace(view, events=_last(view.events, master.event_count - told)), master.event_count

    def _have(self) -> LocalRuntime:
        if self.part is None:
            raise RuntimeError("a worker is told to load before anything else")
        return self.part

    def _pending(self) -> Mapping[str, tuple[Any, ...]]:
        shown: dict[str, tuple[Any, ...]] = {}
        room, room_bytes = PENDING_SHOWN, TOLD_BYTES
        for component, ids in (self.part.pending() if self.part is not None else {}).items():
            found: list[Any] = []
            for message_id in ids[:room]:
                shown_id, size_bytes = _sendable(message_id)
                room_bytes -= size_bytes
                if room_bytes < 0:
                    break
                found.append(shown_id)
            shown[component] = tuple(found)
            room -= len(found)
        return shown

    def _gave_up(self, path: str, error: BaseException) -> None:
        cause = error.__cause__ if isinstance(error, ActorEscalatedError) and error.__cause__ else error
        text = "".join(traceback.format_exception(cause))[-20_000:]
        told = TaskGaveUp(path, describe(cause), text)
        self._tell_parent(told)
        if not self._failed.done():
            self._given_up = told
            self._failed.set_result(None)


def shape_of(topology: Topology) -> str:
    """What must be the same in parent and workers, so that task ids mean the same."""
    return topology.describe()


def _not_named(target: str, worker: str, targets: Sequence[str]) -> str:
    return (
        f"worker {worker} was not started for {target:.500}, but for {', '.join(targets) or 'nothing'}: start it with "
        f"--target {shlex.quote(target)[:500]}"
    )


def _other_version(target: str, worker: str, found: str, expected: str) -> str:
    return (
        f"{target} is another topology in worker {worker} than in its parent; install the same version in both. "
        f"There:\n{found}\nHere:\n{expected}"
    )


def _packed(value: Any) -> bytes:
    """A result as bytes. It is for people and for a summary: a Counter may come as a dict. UnsendableError."""
    try:
        return pack_value(value, RESULT_ITEMS)
    except UnsendableError:
        return pack_value(_plain(value), RESULT_ITEMS)


def _plain(value: Any) -> Any:
    """Without the kinds of dict, list and so on that Python has more of."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind(_plain(item) for item in value)
    return value


def _sendable(message_id: Any) -> tuple[Any, int]:
    """A message id as it is shown, and how many bytes that is."""
    try:
        size_bytes = len(pack_value(message_id))
    except UnsendableError:
        size_bytes = TOLD_BYTES
    if size_bytes <= ID_BYTES:
        return message_id, size_bytes
    shown = repr(message_id)[:SHOWN]
    return shown, 4 * len(shown)


def _last(told: Sequence[Any], new: int) -> tuple[Any, ...]:
    """The last of the new ones, as many as there is room for."""
    found: list[Any] = []
    room_bytes = TOLD_BYTES
    for one in reversed(told[-new:] if new > 0 else ()):
        room_bytes -= len(pack_value(one))
        if room_bytes < 0:
            break
        found.append(one)
    return tuple(reversed(found))


class SetupActor(Actor):
    """Takes the commands that may be slow, one after the other."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    async def receive(self, message: Any) -> Any:
        """An order of the parent's."""
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
        raise TypeError(f"a setup actor does not understand {message!r}")


class ControlActor(Actor):
    """Answers its commands at once."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    def receive(self, message: Any) -> Any:
        """An order of the parent's."""
        self._service.heard += 1
        match message:
            case GetStatus():
                return self._service.look(message)
            case UpdateConfig():
                return self._service.update(message)
            case GetIdleReport():
                return self._service.is_quiet(message)
            case PeerEnded() | PeerDied():
                return self._service.peer_ended(message)
            case PeerRestarted():
                return self._service.peer_back(message)
        raise TypeError(f"a control actor does not understand {message!r}")
