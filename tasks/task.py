"""Task: what spout tasks and bolt tasks share: one instance of a component, as an actor with a task id.

The actor outlives its component: after a failure the guardian restarts it and it makes a fresh component
(user_code.py); the mailbox, what was taken from it, and what waits to be sent stay.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ..actors import Actor, DeadLetter, MailboxClosedError
from ..metrics import TaskCounters, TaskMetrics, TimeMetrics, added
from ..topology import (
    WATERMARK_FIELDS,
    WATERMARK_STREAM,
    ComponentSpec,
    Config,
    Failure,
    Origin,
    Row,
    Segment,
    TaskSpec,
)
from .emit.ack_batch import AckBatch
from .emit.checking import check_rows
from .emit.emitter import Emitter
from .emit.out_streams import OutStreams
from .emit.outbox import Outbox
from .emit.stamping import Stamps
from .emit.tracing import TaskTracer
from .emit.watermarks import WatermarkEmitter
from .hints import hint
from .reports import describe
from .user_code import UserCode

if TYPE_CHECKING:
    from ..actors import Pack
    from .environment import Environment


class Activate:
    """To a spout task: start or continue emitting."""


class Deactivate:
    """To a spout task: emit nothing new. `end=True`: for good, so a waiting `next_tuple` is cancelled."""

    def __init__(self, *, end: bool = False) -> None:
        self.end = end


class FailPending:
    """To a spout task: every message that is open now fails, because its tree is lost (a worker died, say)."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


class TaskActor(Actor, ABC):
    """Base of spout and bolt tasks. `ready` is done when the component was opened or prepared for the first time.

    `user`: the component. `acks`: what the ackers are to be sent. `measured`: the histograms that it fills.
    """

    measured: ClassVar[tuple[str, ...]] = ()

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        self.env = env
        self.task = task
        self.spec = spec
        self.config = config
        self.counters = TaskCounters(*self.measured)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.name = f"component {task.component!r} (task {task.task_id})"
        ids = env.ids()
        mailbox_of = partial(env.mailbox_of, task.task_id)
        self.outbox = Outbox(self._on_unblock, self._lost, ids.take, self._packed, mailbox_of, self._on_block)
        stopwatch = env.clock.stopwatch
        tracer = TaskTracer(env.span_ring(), env.span_mask, task.task_id, stopwatch, env.clock.now)
        self.acks = AckBatch(env.ackers(task), self.counters, tracer)
        streams = OutStreams(self.name, env.out_streams(task, spec, config, self.outbox))
        stamps = Stamps(lambda: int(env.clock.now() * 1000)) if env.plan.time.stamped else None
        self.emitter = Emitter(
            streams,
            ids,
            self.acks,
            self.counters,
            self._refused,
            stopwatch=stopwatch,
            stamps=stamps,
            spread=bool(env.remote),
        )
        if env.config.testing_always_try_serialize:
            check_rows(self.emitter)
        self.watermarks = self.emitter.watermarks = WatermarkEmitter(
            self.name,
            Origin(task.component, task.task_id, WATERMARK_STREAM, WATERMARK_FIELDS),
            self.outbox.outlets,
            env.watermark_receivers(task.component),
            declared=spec.time.emits_watermarks,
        )
        self.emitter.following = env.following(task, streams.values(), self.watermarks)
        self.user = UserCode(env, task, spec, config, self.emitter, self.report)

    async def started(self) -> None:
        """Make and open a component. With exactly once, an error takes all tasks back, unless that would not help."""
        if self.user.component is not None:
            self.counters.restarts += 1
            self.go_back("it was restarted: its instance is lost")
        try:
            await self.open_component(first=self.user.component is None)
        except Exception as error:
            if getattr(error, "final", False) is not True:
                self.go_back(error)
            raise

    @abstractmethod
    async def open_component(self, *, first: bool) -> None:
        """Make and open a component. `first`: it continues where the snapshot ends."""

    # -- read by the cluster -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Nothing to do, nothing in hand, nothing waiting to be sent."""

    @property
    def pending(self) -> int:
        """Open messages (spouts)."""
        return 0

    @property
    def pending_trees(self) -> int:
        """Trees with open messages (spouts)."""
        return 0

    def metrics(self) -> TaskMetrics:
        """A copy of the counters."""
        gate, plan, streams = self.env.mailboxes[self.task.task_id].gate, self.env.plan, self.emitter.streams.values()
        edges = [edge for stream in streams for edge in stream.edges(plan.component_of)]
        return TaskMetrics.of(
            self.task.task_id,
            self.counters,
            pending=self.pending,
            pending_trees=self.pending_trees,
            fill=gate.fill,
            capacity=gate.capacity,
            time=self.time_metrics(),
            progress=self.user.progress(),
            streams=tuple([(stream.origin.stream, stream.emitted) for stream in streams]),
            edges=tuple(added(edges)),
            own=self.user.own.read(),
            **self.seen(),
        )

    def time_metrics(self) -> TimeMetrics | None:
        """How far event time is, for a task that handles it."""
        return None

    def seen(self) -> dict[str, Any]:
        """Metrics that are computed when they are read."""
        return {}

    def is_ready(self) -> None:
        """Set `ready`, once."""
        if not self.ready.done():
            self.ready.set_result(None)

    def use_config(self, config: Config) -> None:
        """Other settings, for what reads them at each use."""
        self.config = self.user.config = config

    def report(self, where: str, error: BaseException, tup: object | None = None) -> None:
        """Report an error in user code."""
        self.counters.errors += 1
        clock = self.env.clock
        self.env.exits.add(f"/{self.env.name}/{self.task.component}[{self.task.task_id}]", error, clock.monotonic())
        self.env.errors.add(
            self.task.component,
            self.task.task_id,
            where,
            error,
            tup=tup,
            wall_s=clock.now(),
            now_s=clock.monotonic(),
            hint=hint(self.env.topology, self.task.component, error, tup),
        )

    def row_failed(self, error: BaseException | str | None) -> None:
        """User code refused a row. With exactly once, all tasks go back to the last snapshot, or the row is skipped."""
        if self.config.state_on_error == "rollback":
            self.go_back(error)

    def go_back(self, error: BaseException | str | None) -> None:
        """Something was lost that is no row to skip. With exactly once, all tasks go back to the last snapshot."""
        snapshots = self.env.snapshots
        if snapshots is not None:
            text = "it failed" if error is None else describe(error)
            snapshots.row_failed(self.task.component, self.task.task_id, text)

    def failure(self, error: BaseException | str | None) -> Failure:
        """The Failure that a spout receives."""
        text = None if error is None else describe(error)
        return Failure("failed", self.task.component, self.task.task_id, text)

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def _on_block(self) -> None:
        """Segments begin to wait for their targets."""

    def _on_unblock(self) -> None:
        """Nothing waits any more; or something was lost, and the rest may still wait."""
        self.mailbox.wake()

    def _lost(self, segment: Segment, error: MailboxClosedError) -> None:
        """A target ended before it took the segment: its messages fail, at once if their ackers still run."""
        failure = self.failure(f"the target task has ended: {error}")
        self.go_back(failure.error)
        self.acks.failures += [(root, index, failure) for root, index in segment.messages]
        segment.sent_s = 0.0  # it did not arrive
        self.acks.done(segment)

    def _packed(self, pack: Pack, piece: Segment, target: int) -> list[Segment]:
        """A target in another worker takes a piece of rows that waited for several targets: pack it."""
        packed = self.emitter.spreader.packed(pack, piece, target)
        if self.emitter.dirty:  # a row that cannot be sent: its message fails
            self._on_unblock()
        return packed

    def dead_letter(self, segment: Segment) -> None:
        """A segment was taken from the mailbox and will not be executed."""
        self.system.dead_letters.add(DeadLetter(self.name, segment, "the task ended before it executed it"))

    def _refused(self, error: Exception, row: Row, stream: str) -> Failure:
        self.report(f"emit on stream {stream!r}", error, row)
        self.row_failed(error)
        return self.failure(error)
