"""What users write: spouts, bolts, hooks. Every user method may be `def` or `async def`.

Storm: IRichSpout, IRichBolt, IBasicBolt, ITaskHook; JStorm: IAckValueSpout, IFailValueSpout. The names are theirs, in
snake_case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

from .fields import Fields
from .time_flow import TimeRole
from .values import Declared, MessageId, Position, Result, Returned, Setting

if TYPE_CHECKING:
    from .collectors import BasicCollector, BoltCollector, SpoutCollector
    from .completion import Completion
    from .context import StateDeclaration, TopologyContext
    from .snapshot_config import Guarantee
    from .streams import StreamId
    from .tuples import Row, Tuple

Outputs = Fields | Mapping[str, Declared] | str | tuple[str, ...] | list[str] | None
"""Declared streams: fields of the default stream, or stream name → fields (`direct(...)` for a direct stream)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a message failed.

    `reason` is "failed" (a bolt failed a tuple of its tree, or raised) or "timeout" (the tree was not complete within
    `topology.message.timeout.secs`). For "failed", `component`, `task` and `error` say where and why; `error` is text
    ("ValueError: …"), since it may come from another process. `attempts` includes this failure.

    Storm only says that a message failed (depart).
    """

    reason: Literal["failed", "timeout"]
    component: str | None = None
    task: int | None = None
    error: str | None = None
    attempts: int = 1


class Progress(NamedTuple):
    """The progress of a task: `done` of `total` parts, called `unit`; `rows` were processed in them.

    `total` 0: there is nothing to do. `before`: parts that an earlier run has done. `note`: an explanation for people
    ("done by an earlier run of …").
    """

    done: int
    total: int
    unit: str
    rows: int = 0
    before: int = 0
    note: str = ""


class Component:
    """The common base of spouts and bolts: declared outputs, own configuration, blocking or not.

    `outputs`: fields of the default stream, or a mapping of stream → fields. `config`: topology settings for this
    component only, by Storm key or field name. `blocking`: user methods are `def` and run in the task's own thread, so
    that they may block. `watermarks`: the component emits watermarks for windows downstream
    (`collector.emit_watermark`). `state`: `KeyedState(key=…)` or `ValueState(…)`: `context.state` is restored after a
    restart (with exactly-once). `keyed_output`: fields; for each key it reads and changes one value in another system,
    so only one task may get the rows of a key. `on_driver`: it needs something that only the submitting program has (a
    Spark session): if workers run elsewhere, on Spark's executors, its tasks run in that program. Otherwise it has no
    effect.
    """

    outputs: ClassVar[Outputs] = None
    config: ClassVar[Mapping[str, Setting]] = {}
    blocking: ClassVar[bool] = False
    watermarks: ClassVar[bool] = False
    state: ClassVar[StateDeclaration | None] = None
    keyed_output: tuple[str, ...] = ()
    on_driver: ClassVar[bool] = False

    @property
    def time_role(self) -> TimeRole:
        """Its role in event time (for the framework)."""
        return TimeRole(emits_watermarks=self.watermarks)

    @property
    def outputs_follow(self) -> bool:
        """Do its outputs depend on its inputs (for the builder)?"""
        return False

    def all_outputs(self, inputs: Mapping[StreamId, Fields] | None = None) -> Outputs:
        """All outputs, including streams that depend on its inputs (for the builder).

        `inputs`: the streams that it reads, for components whose outputs depend on them.
        """
        return self.outputs

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        """Mistakes in its declaration, given the streams that it reads (for the builder)."""
        return []

    def refused(self, guarantee: Guarantee) -> list[str]:
        """Why it cannot run with this guarantee, with what to do (for the builder)."""
        return []

    def progress(self) -> Progress | None:
        """Its progress, for `aiostorm run` and the metrics; None: unknown. Called often, also before `open`."""
        return None

    def result(self) -> Result:
        """The task's result, for `running.results()` and `aiostorm run`: plain data. None: no result."""
        return None

    def completed(self, completion: Completion) -> None:
        """The topology is complete. Called once, after its tasks have ended, in a thread of the submitting program.

        Called on an instance that had no task; not called if anything failed, or if no caller waited for the finish.
        """


class Spout(Component):
    """A source of streams. `next_tuple` emits what is available and returns; `ack` and `fail` report the outcomes.

    `default_max_retries`: its `topology.max.retries` if that is not set; None: its `fail` decides.
    """

    default_max_retries: ClassVar[int | None] = None

    def refused(self, guarantee: Guarantee) -> list[str]:
        """With exactly-once it must be able to begin again at a position, and must not rely on `ack`."""
        return _refused_exactly_once(self) if guarantee == "exactly-once" else []

    def open(self, context: TopologyContext, collector: SpoutCollector) -> Returned:
        """Called once, before all other methods."""

    def next_tuple(self) -> Returned:
        """Emit zero or more tuples. After a call that emits nothing, the framework waits before the next one."""
        raise NotImplementedError(f"{type(self).__name__} must define next_tuple")

    def ack(self, message_id: MessageId) -> Returned:
        """The tree of this message is complete."""

    def fail(self, message_id: MessageId, failure: Failure) -> Returned:
        """The message failed; emit it again or drop it."""

    def snapshot(self) -> Position:
        """How far it has read its source: exactly the rows that it has emitted so far are before this position.

        Called between two calls of `next_tuple`, or while an `async def next_tuple` waits: so the position must change
        with the emit, without an `await` in between. Needed with exactly-once, as is `restore`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define snapshot")

    def restore(self, position: Position) -> Returned:
        """Continue after this position. Called after `open` and before `next_tuple`; not without a snapshot."""
        raise NotImplementedError(f"{type(self).__name__} must define restore")

    def committed(self, number: int) -> Returned:
        """Snapshot `number` is durable: what was emitted before it will never be asked for again.

        Commit offsets here, not in `ack`, which is not called with exactly-once.
        """

    def activate(self) -> Returned:
        """The topology was activated."""

    def deactivate(self) -> Returned:
        """The topology was deactivated: `next_tuple` is not called until it is activated again."""

    def close(self) -> Returned:
        """Called once at the end (not on kill -9)."""


class AckValueSpout(Spout):
    """A spout whose `ack` is `ack(message_id, values)`: the framework keeps the values. JStorm: IAckValueSpout."""

    def ack(self, message_id: MessageId, values: Row) -> Returned:  # type: ignore[override]
        """The tree of this message is complete; these were its values."""


class FailValueSpout(Spout):
    """A spout whose `fail` is `fail(message_id, values, failure)`: values are kept. JStorm: IFailValueSpout."""

    def fail(self, message_id: MessageId, values: Row, failure: Failure) -> Returned:  # type: ignore[override]
        """The message failed; these were its values."""


def _refused_exactly_once(spout: Spout) -> list[str]:
    def defines(method: str) -> bool:
        own = getattr(type(spout), method) not in {getattr(base, method) for base in _SPOUTS}
        return own or method in vars(spout)

    problems: list[str] = []
    name = type(spout).__name__
    if missing := [method for method in ("snapshot", "restore") if not defines(method)]:
        problems.append(
            f"{name} defines no {' and no '.join(missing)}, so it cannot read its source again from a position, as "
            "exactly-once needs: define snapshot() and restore(position), or use guarantee=at-least-once"
        )
    acks = [method for method in ("ack", "fail") if defines(method)]
    if acks and not defines("committed"):
        problems.append(
            f"{name} defines {' and '.join(acks)}, which exactly-once never calls: define committed(number), which is "
            "called when everything before a snapshot is done for good"
        )
    return problems


_SPOUTS: Final = (Spout, AckValueSpout, FailValueSpout)


class Bolt(Component):
    """Storm's rich bolt: it anchors, acks and fails by itself, at once or later."""

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> Returned:
        """Called once, before all other methods, and again after a restart (on a new instance)."""

    def execute(self, tup: Tuple) -> Returned:
        """Process one tuple. Define `execute_batch(tuples)` to receive whole batches, `on_tick()` for ticks."""
        raise NotImplementedError(f"{type(self).__name__} must define execute or execute_batch")

    def flush(self) -> Returned:
        """A snapshot is taken (exactly once): emit or write what is kept, and ack the rows. It waits for all acks."""

    def cleanup(self) -> Returned:
        """Called once at the end (not on kill -9)."""


class BasicBolt(Component):
    """A bolt whose emits are anchored to the input, which is acked when `execute` returns and failed when it raises."""

    @property
    def time_role(self) -> TimeRole:
        """Its role in event time. Emits of a batch may have no anchors, and a tick has none."""
        anchors = not (hasattr(self, "execute_batch") or hasattr(self, "on_tick"))
        return replace(super().time_role, anchors=anchors)

    def prepare(self, context: TopologyContext) -> Returned:
        """Called once, before all other methods, and again after a restart (on a new instance)."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> Returned:
        """Process one tuple. Define `execute_batch(tuples, collector)` instead to receive a whole batch.

        Or define `execute_arrow(batch, collector)` to receive a pyarrow.RecordBatch: columns as they were emitted, or
        made from rows. `on_tick(collector)`, if defined, is called for ticks. A batch emits with a BatchCollector.
        """
        raise NotImplementedError(f"{type(self).__name__} must define execute or execute_batch")

    def cleanup(self) -> Returned:
        """Called once at the end (not on kill -9)."""


class Windowed(Component):
    """Base of the bolts of the package `windows`; derive from those."""


class TaskHook:
    """Called around the work of a task; for metrics and debugging. Storm: ITaskHook.

    Hooks get every tuple one by one, so a task with hooks is slower. Attach them with `context.add_task_hook` or, for
    every task, with the config key `topology.auto.task.hooks` (import strings). An error in a hook is reported, and has
    no other effect.
    """

    def prepare(self, context: TopologyContext) -> None:
        """The task starts."""

    def cleanup(self) -> None:
        """The task ends."""

    def emit(self, values: Row, stream: str, task_id: int) -> None:
        """The task emitted a tuple; called when the turn is sent (depart: in Storm, by the emit)."""

    def spout_ack(self, message_id: MessageId, task_id: int, complete_latency_s: float) -> None:
        """A message was acked."""

    def spout_fail(self, message_id: MessageId, task_id: int, failure: Failure) -> None:
        """A message failed."""

    def bolt_execute(self, tup: Tuple, task_id: int, execute_latency_s: float) -> None:
        """A tuple was executed."""

    def bolt_ack(self, tup: Tuple, task_id: int) -> None:
        """A tuple was acked."""

    def bolt_fail(self, tup: Tuple, task_id: int) -> None:
        """A tuple was failed."""
