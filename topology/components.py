"""What users write: spouts, bolts, hooks. Every user method may be `def` or `async def`.

Storm: IRichSpout, IRichBolt, IBasicBolt, ITaskHook; JStorm: IAckValueSpout, IFailValueSpout. The names are theirs, in
snake_case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from .fields import Fields
from .resources import find_resource
from .time_flow import TimeRole
from .tuples import DEFAULT_STREAM, Row, Tuple, TupleBatch
from .values import Declared, MessageId, RecordBatch, ResourceValue, Result, Returned, Setting, Timestamp, Value

if TYPE_CHECKING:
    from .completion import Completion
    from .config import Config
    from .streams import StreamId

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


class TopologyContext:
    """A component's view of the topology in which it runs. Storm: TopologyContext."""

    __slots__ = (
        *("_add_hook", "_fields", "_resources", "_tasks"),
        *("component", "config", "task_id", "task_index", "topology"),
    )

    def __init__(
        self,
        *,
        topology: str,
        component: str,
        task_id: int,
        task_index: int,
        config: Config,
        tasks: Mapping[str, tuple[int, ...]],
        fields: Mapping[tuple[str, str], Fields],
        add_hook: Callable[[TaskHook], None],
        resources: Mapping[str, ResourceValue] | None = None,
    ) -> None:
        self.topology = topology
        self.component = component
        self.task_id = task_id
        self.task_index = task_index
        self.config = config
        self._tasks = tasks
        self._fields = fields
        self._add_hook = add_hook
        self._resources: Mapping[str, ResourceValue] = {} if resources is None else resources

    def tasks(self, component: str) -> tuple[int, ...]:
        """The task ids of a component, ascending; for `emit_direct`."""
        try:
            return self._tasks[component]
        except KeyError:
            raise KeyError(f"no component {component!r}; there are: {', '.join(sorted(self._tasks))}") from None

    @property
    def parallelism(self) -> int:
        """The number of tasks of this component."""
        return len(self._tasks[self.component])

    def fields(self, component: str, stream: str = DEFAULT_STREAM) -> Fields:
        """The declared fields of a component's stream."""
        try:
            return self._fields[component, stream]
        except KeyError:
            raise KeyError(f"{component!r} declares no stream {stream!r}") from None

    def resource(self, name: str) -> ResourceValue:
        """The resource of this worker with that name: see TopologyBuilder.resource. ResourceError if there is none."""
        return find_resource(name, self._resources)

    def add_task_hook(self, hook: TaskHook) -> None:
        """Attach a hook to this task; call this in `open` or `prepare`."""
        self._add_hook(hook)


class SpoutCollector(Protocol):
    """Emits the tuples of a spout."""

    def emit(self, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple; with a message id it is tracked, and `ack` or `fail` will be called with that id."""
        ...

    def emit_direct(
        self, task: int, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(
        self, batch: RecordBatch, message_id: MessageId = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a pyarrow.RecordBatch whose columns are the stream's fields: one message, one tree.

        `task`: to this task only, on a direct stream.
        """
        ...

    def emit_watermark(self, timestamp: Timestamp) -> None:
        """Promise that no tuple before `timestamp` follows; windows downstream use this. Needs `watermarks = True`."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far, and wait until the targets have accepted it."""
        ...

    def wake(self) -> None:
        """There is something to emit: `next_tuple` is called at once, not after the wait that follows an empty call."""
        ...

    def finish(self) -> None:
        """This task has nothing more to emit: `next_tuple` is not called again."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Report an error in the log, the metrics and `running.errors()`, without failing any tuple."""
        ...


class BasicCollector(Protocol):
    """Emits the tuples of a basic bolt, anchored to the tuple that is being executed."""

    def emit(self, values: Row | list[Value], stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple."""
        ...

    def emit_direct(self, task: int, values: Row | list[Value], stream: str = DEFAULT_STREAM) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(self, batch: RecordBatch, stream: str = DEFAULT_STREAM, *, task: int | None = None) -> None:
        """Emit a pyarrow.RecordBatch, anchored to the tuple or batch that is being executed."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far, and wait until the targets have accepted it."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Report an error in the log, the metrics and `running.errors()`, without failing any tuple."""
        ...


class BatchCollector(BasicCollector, Protocol):
    """Emits the tuples of `execute_batch`, anchored to the whole batch unless `anchors` names tuples."""

    def emit(
        self,
        values: Row | list[Value],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit one tuple."""
        ...

    def emit_rows(
        self,
        rows: Iterable[Row],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit many tuples: like `emit` for each, at a fraction of the cost."""
        ...

    def emit_column(
        self,
        values: Iterable[Value],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit many tuples of one value each, on a stream of one field."""
        ...


class BoltCollector(Protocol):
    """Emits, acks and fails the tuples of a (rich) bolt."""

    def emit(
        self,
        values: Row | list[Value],
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Emit one tuple, as a child of `anchors` (one tuple, several, a whole batch, or none: untracked)."""
        ...

    def emit_direct(
        self,
        task: int,
        values: Row | list[Value],
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(
        self,
        batch: RecordBatch,
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
        *,
        task: int | None = None,
    ) -> None:
        """Emit a pyarrow.RecordBatch, as a child of `anchors`."""
        ...

    def ack(self, tup: Tuple | TupleBatch) -> None:
        """The tuple, or everything passed to `execute_batch`, has been processed. A second ack has no effect."""
        ...

    def fail(self, tup: Tuple | TupleBatch, error: BaseException | str | None = None) -> None:
        """The tuple, or everything in a batch, could not be processed: the messages fail at the spout."""
        ...

    def reset_timeout(self, tup: Tuple) -> None:
        """Restart the clock of the tuple's tree."""
        ...

    def emit_watermark(self, timestamp: Timestamp) -> None:
        """Promise that no tuple before `timestamp` follows; windows downstream use this. Needs `watermarks = True`."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far, and wait until the targets have accepted it."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Report an error in the log, the metrics and `running.errors()`, without failing any tuple."""
        ...


class Component:
    """The common base of spouts and bolts: declared outputs, own configuration, blocking or not.

    `outputs`: fields of the default stream, or a mapping of stream → fields. `config`: topology settings for this
    component only, by Storm key or field name. `blocking`: user methods are `def` and run in the task's own thread, so
    that they may block. `watermarks`: the component emits watermarks for windows downstream
    (`collector.emit_watermark`). `on_driver`: it needs something that only the submitting program has (a Spark
    session): if workers run elsewhere, on Spark's executors, its tasks run in that program. Otherwise it has no effect.
    """

    outputs: ClassVar[Outputs] = None
    config: ClassVar[Mapping[str, Setting]] = {}
    blocking: ClassVar[bool] = False
    watermarks: ClassVar[bool] = False
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

    def open(self, context: TopologyContext, collector: SpoutCollector) -> Returned:
        """Called once, before all other methods."""

    def next_tuple(self) -> Returned:
        """Emit zero or more tuples. After a call that emits nothing, the framework waits before the next one."""
        raise NotImplementedError(f"{type(self).__name__} must define next_tuple")

    def ack(self, message_id: MessageId) -> Returned:
        """The tree of this message is complete."""

    def fail(self, message_id: MessageId, failure: Failure) -> Returned:
        """The message failed; emit it again or drop it."""

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


class Bolt(Component):
    """Storm's rich bolt: it anchors, acks and fails by itself, at once or later."""

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> Returned:
        """Called once, before all other methods, and again after a restart (on a new instance)."""

    def execute(self, tup: Tuple) -> Returned:
        """Process one tuple. Define `execute_batch(tuples)` to receive whole batches, `on_tick()` for ticks."""
        raise NotImplementedError(f"{type(self).__name__} must define execute or execute_batch")

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
