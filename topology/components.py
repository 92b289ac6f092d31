"""What a user writes: spouts, bolts, hooks. Every user method may be `def` or `async def`.

Storm: IRichSpout, IRichBolt, IBasicBolt, ITaskHook; JStorm: IAckValueSpout, IFailValueSpout. Names are theirs in
snake_case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from .completion import Completion
from .fields import Fields
from .resources import find_resource
from .streams import StreamId
from .time_flow import TimeRole
from .tuples import DEFAULT_STREAM, Row, Tuple, TupleBatch

if TYPE_CHECKING:
    from .config import Config

Outputs = Fields | Mapping[str, Any] | str | tuple[str, ...] | list[str] | None
"""Declared streams: fields of the default stream, or stream name → fields (`direct(...)` for a direct stream)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a message failed.

    `reason` is "failed" (a bolt failed a tuple of its tree, or raised) or "timeout" (the tree was not complete in
    `topology.message.timeout.secs`). For "failed", `component`, `task` and `error` say where and what; `error` is text
    ("ValueError: …"), since it may come from another process. `attempts` counts this failure in.

    Storm tells a spout only that something failed (depart).
    """

    reason: Literal["failed", "timeout"]
    component: str | None = None
    task: int | None = None
    error: str | None = None
    attempts: int = 1


class Progress(NamedTuple):
    """How far a task is with what it has to do: `done` of `total` parts, called `unit`; `rows` of them are processed.

    `total` 0: there is nothing to do. `before`: so many parts were done by an earlier run. `note`: what people should
    know of that ("done by an earlier run of …").
    """

    done: int
    total: int
    unit: str
    rows: int = 0
    before: int = 0
    note: str = ""


class TopologyContext:
    """What a component can know of the topology it runs in. Storm: TopologyContext."""

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
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        self.topology = topology
        self.component = component
        self.task_id = task_id
        self.task_index = task_index
        self.config = config
        self._tasks = tasks
        self._fields = fields
        self._add_hook = add_hook
        self._resources = {} if resources is None else resources

    def tasks(self, component: str) -> tuple[int, ...]:
        """The task ids of a component, ascending; for `emit_direct`."""
        try:
            return self._tasks[component]
        except KeyError:
            raise KeyError(f"no component {component!r}; there are: {', '.join(sorted(self._tasks))}") from None

    @property
    def parallelism(self) -> int:
        """How many tasks this component has."""
        return len(self._tasks[self.component])

    def fields(self, component: str, stream: str = DEFAULT_STREAM) -> Fields:
        """The declared fields of a component's stream."""
        try:
            return self._fields[component, stream]
        except KeyError:
            raise KeyError(f"{component!r} declares no stream {stream!r}") from None

    def resource(self, name: str) -> Any:
        """What the tasks of this worker share under that name: see TopologyBuilder.resource. ResourceError: no such."""
        return find_resource(name, self._resources)

    def add_task_hook(self, hook: TaskHook) -> None:
        """Attach a hook to this task; call it in `open` or `prepare`."""
        self._add_hook(hook)


class SpoutCollector(Protocol):
    """What a spout emits into."""

    def emit(self, values: Row | list[Any], message_id: Any = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple; with a message id it is tracked and `ack` or `fail` will be called with that id."""
        ...

    def emit_direct(
        self, task: int, values: Row | list[Any], message_id: Any = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(
        self, batch: Any, message_id: Any = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a pyarrow.RecordBatch whose columns are the stream's fields: one message, one tree.

        `task`: to this task only, on a direct stream.
        """
        ...

    def emit_watermark(self, timestamp: Any) -> None:
        """Say that no tuple before `timestamp` comes any more: windows behind go by it. Needs `watermarks = True`."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far and wait until it has found room."""
        ...

    def wake(self) -> None:
        """There is something new: `next_tuple` is called at once, not after the wait that its silence earned it."""
        ...

    def finish(self) -> None:
        """Say that this task has nothing more to emit: `next_tuple` is not called again."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Show an error in the log, the metrics and `running.errors()` without failing anything."""
        ...


class BasicCollector(Protocol):
    """What a basic bolt emits into: anchored to the tuple being executed."""

    def emit(self, values: Row | list[Any], stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple."""
        ...

    def emit_direct(self, task: int, values: Row | list[Any], stream: str = DEFAULT_STREAM) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(self, batch: Any, stream: str = DEFAULT_STREAM, *, task: int | None = None) -> None:
        """Emit a pyarrow.RecordBatch, anchored to what is being executed."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far and wait until it has found room."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Show an error in the log, the metrics and `running.errors()` without failing anything."""
        ...


class BatchCollector(BasicCollector, Protocol):
    """What `execute_batch` of a basic bolt emits into: anchored to the whole batch, unless `anchors` names tuples."""

    def emit(
        self,
        values: Row | list[Any],
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
        """Emit many tuples: as `emit` for each, at a fraction of its cost."""
        ...

    def emit_column(
        self,
        values: Iterable[Any],
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Tuple | list[Tuple] | tuple[Tuple, ...] | None = ...,
    ) -> None:
        """Emit many tuples of one value each, on a stream of one field."""
        ...


class BoltCollector(Protocol):
    """What a (rich) bolt emits into, acks and fails with."""

    def emit(
        self,
        values: Row | list[Any],
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Emit one tuple, as a child of `anchors` (one tuple, several, a whole batch, or none: untracked)."""
        ...

    def emit_direct(
        self,
        task: int,
        values: Row | list[Any],
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Emit to one task of a component that subscribed with direct grouping."""
        ...

    def emit_arrow(
        self,
        batch: Any,
        anchors: Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None = None,
        stream: str = DEFAULT_STREAM,
        *,
        task: int | None = None,
    ) -> None:
        """Emit a pyarrow.RecordBatch, as a child of `anchors`."""
        ...

    def ack(self, tup: Tuple | TupleBatch) -> None:
        """The tuple, or all of what `execute_batch` was given, has been processed. Twice is harmless."""
        ...

    def fail(self, tup: Tuple | TupleBatch, error: BaseException | str | None = None) -> None:
        """The tuple, or all of a batch, could not be processed: the messages fail at the spout."""
        ...

    def reset_timeout(self, tup: Tuple) -> None:
        """Restart the clock of the tuple's tree."""
        ...

    def emit_watermark(self, timestamp: Any) -> None:
        """Say that no tuple before `timestamp` comes any more: windows behind go by it. Needs `watermarks = True`."""
        ...

    async def drain(self) -> None:
        """Send what was emitted so far and wait until it has found room."""
        ...

    def report_error(self, error: BaseException) -> None:
        """Show an error in the log, the metrics and `running.errors()` without failing anything."""
        ...


class Component:
    """What spouts and bolts share: declared outputs, configuration of their own, blocking or not.

    `outputs`: fields of the default stream, or a mapping of stream → fields. `config`: topology settings for this
    component only, by Storm key or field name. `blocking`: user methods are `def` and run in a thread of the task's
    own, so that they may block. `watermarks`: it tells windows behind it how far time has come
    (`collector.emit_watermark`). `on_driver`: it needs what only the program that submits has (a Spark session), so
    where workers run elsewhere, on Spark's executors, its tasks stay with that program. It means nothing otherwise.
    """

    outputs: ClassVar[Outputs] = None
    config: ClassVar[Mapping[str, Any]] = {}
    blocking: ClassVar[bool] = False
    watermarks: ClassVar[bool] = False
    on_driver: ClassVar[bool] = False

    @property
    def time_role(self) -> TimeRole:
        """What it has to do with time (for the framework)."""
        return TimeRole(emits_watermarks=self.watermarks)

    @property
    def outputs_follow(self) -> bool:
        """Do its outputs depend on what it reads (for the builder)?"""
        return False

    def all_outputs(self, inputs: Mapping[StreamId, Fields] | None = None) -> Outputs:
        """What it declares, with streams that follow from something else (for the builder).

        `inputs`: what it reads, given to components whose outputs follow from that.
        """
        return self.outputs

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        """What is wrong with it, given what it reads (for the builder)."""
        return []

    def progress(self) -> Progress | None:
        """How far it is, for `aiostorm run` and the metrics; None: nobody knows. Called often, also before `open`."""
        return None

    def result(self) -> Any:
        """What this task has found, for `running.results()` and `aiostorm run`: plain data. None: nothing to say."""
        return None

    def completed(self, completion: Completion) -> None:
        """The topology is whole. Called after its tasks have ended, once, in a thread of the program that submitted it.

        On an instance that had no task; not if anything has failed, or if nobody waited for it to finish.
        """


class Spout(Component):
    """A source of streams. `next_tuple` emits what there is and returns; `ack` and `fail` hear what became of it.

    `default_max_retries`: its `topology.max.retries` where nobody has set one; None: its `fail` decides.
    """

    default_max_retries: ClassVar[int | None] = None

    def open(self, context: TopologyContext, collector: SpoutCollector) -> Any:
        """Called once before anything else."""

    def next_tuple(self) -> Any:
        """Emit zero or more tuples. Emitting nothing makes the framework wait a little before it asks again."""
        raise NotImplementedError(f"{type(self).__name__} must define next_tuple")

    def ack(self, message_id: Any) -> Any:
        """The tree of this message is complete."""

    def fail(self, message_id: Any, failure: Failure) -> Any:
        """The message failed; emit it again or let it go."""

    def activate(self) -> Any:
        """The topology was activated."""

    def deactivate(self) -> Any:
        """The topology was deactivated: `next_tuple` will not be called until it is activated."""

    def close(self) -> Any:
        """Called once at the end (not on kill -9)."""


class AckValueSpout(Spout):
    """A spout whose `ack` is `ack(message_id, values)`: the framework keeps the values. JStorm: IAckValueSpout."""

    def ack(self, message_id: Any, values: Row) -> Any:  # type: ignore[override]
        """The tree of this message is complete; these were its values."""


class FailValueSpout(Spout):
    """A spout whose `fail` is `fail(message_id, values, failure)`: values are kept. JStorm: IFailValueSpout."""

    def fail(self, message_id: Any, values: Row, failure: Failure) -> Any:  # type: ignore[override]
        """The message failed; these were its values."""


class Bolt(Component):
    """Storm's rich bolt: it anchors, acks and fails by itself, at once or later."""

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> Any:
        """Called once before anything else, and again after a restart (on a new instance)."""

    def execute(self, tup: Tuple) -> Any:
        """Process one tuple. Define `execute_batch(tuples)` to be handed whole batches, `on_tick()` for ticks."""
        raise NotImplementedError(f"{type(self).__name__} must define execute or execute_batch")

    def cleanup(self) -> Any:
        """Called once at the end (not on kill -9)."""


class BasicBolt(Component):
    """A bolt whose emits are anchored to the input, which is acked when `execute` returns and failed when it raises."""

    @property
    def time_role(self) -> TimeRole:
        """See Component. A batch may emit what has no anchors, and a tick has none."""
        anchors = not (hasattr(self, "execute_batch") or hasattr(self, "on_tick"))
        return replace(super().time_role, anchors=anchors)

    def prepare(self, context: TopologyContext) -> Any:
        """Called once before anything else, and again after a restart (on a new instance)."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> Any:
        """Process one tuple. Define `execute_batch(tuples, collector)` instead to be handed a whole batch.

        Or define `execute_arrow(batch, collector)` to be handed a pyarrow.RecordBatch: columns as they were emitted, or
        made of rows. `on_tick(collector)`, if defined, is called for ticks. See BatchCollector for what a batch emits
        into.
        """
        raise NotImplementedError(f"{type(self).__name__} must define execute or execute_batch")

    def cleanup(self) -> Any:
        """Called once at the end (not on kill -9)."""


class Windowed(Component):
    """Base of the bolts of room `windows`; derive from those."""


class TaskHook:
    """Called around what a task does; for metrics and debugging. Storm: ITaskHook.

    Hooks see every tuple one by one, so a task with hooks is slower. Attach them with `context.add_task_hook` or, for
    every task, with the config key `topology.auto.task.hooks` (import strings). An error in a hook is reported and
    changes nothing.
    """

    def prepare(self, context: TopologyContext) -> None:
        """The task starts."""

    def cleanup(self) -> None:
        """The task ends."""

    def emit(self, values: Row, stream: str, task_id: int) -> None:
        """The task emitted a tuple; called when the turn is sent (depart: in Storm, by the emit)."""

    def spout_ack(self, message_id: Any, task_id: int, complete_latency_s: float) -> None:
        """A message was acked."""

    def spout_fail(self, message_id: Any, task_id: int, failure: Failure) -> None:
        """A message failed."""

    def bolt_execute(self, tup: Tuple, task_id: int, execute_latency_s: float) -> None:
        """A tuple was executed."""

    def bolt_ack(self, tup: Tuple, task_id: int) -> None:
        """A tuple was acked."""

    def bolt_fail(self, tup: Tuple, task_id: int) -> None:
        """A tuple was failed."""
