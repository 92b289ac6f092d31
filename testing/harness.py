"""Bolt harness: one bolt, run by the real task code; the test takes the place of spout, acker and consumers.

    test ─ execute ─► mailbox ─► [bolt task] ─► outputs: rows by stream
                                      └───────► ackers' mailbox: what was acked, what failed

1. The bolt runs as it does in a topology: batches, anchors, restarts after an exception, ticks, threads if it blocks.
2. `execute` returns when the task has nothing more to do, not when the tuple is acked: a bolt may hold it.
3. What happens later (a tick, an ack from an asyncio task of the bolt) appears in the same lists.

Flink: OneInputStreamOperatorTestHarness (not public there).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ..acker import Acks, single_root
from ..actors import EMPTY, Actor, ActorEscalatedError, ActorSystem, Decision, Directive, Mailbox, Ref, RestartPolicy
from ..tasks import BoltTask, Environment, ErrorLog, ErrorReport, TimeReader
from ..topology import (
    ACKER_COMPONENT,
    DEFAULT_STREAM,
    WATERMARK_FIELDS,
    WATERMARK_STREAM,
    Component,
    Config,
    Failure,
    Fields,
    Origin,
    Row,
    Segment,
    Topology,
    TopologyBuilder,
    component_config,
    make_plan,
)
from .bolts import Recorder
from .changes import Changes
from .errors import ScriptError
from .spouts import WAIT_S, FixedSpout
from .waiting import pending_tasks

if TYPE_CHECKING:
    from ..windows import StreamClock

INPUT, BOLT, OUTPUT = "input", "bolt", "output"
_CAPACITY_TUPLES = 1 << 30


class BoltHarness:
    """The bolt and what it did. Made by `bolt_harness`."""

    def __init__(self, task: BoltTask, env: Environment, inputs: Mapping[str, Fields]) -> None:
        self._task = task
        self._env = env
        self._inputs = inputs
        self._source = _HarnessSource(task, env, inputs)
        self._results = _HarnessResults(env)
        self._changes = Changes()
        env.on_idle = self._changes.notify
        self._guardian = _HarnessGuardian(task, self._changes.notify)

    @property
    def component(self) -> Component:
        """The bolt's running instance: a copy of the given one, and a new one after a restart."""
        component = self._task.user.component
        assert component is not None
        return component

    @property
    def emitted(self) -> list[Row]:
        """What was emitted on the default stream."""
        return self.stream(DEFAULT_STREAM)

    @property
    def acked(self) -> list[Row]:
        """The input rows that were acked, in that order."""
        return list(self._results.collected().acked)

    @property
    def failed(self) -> list[Row]:
        """The input rows that failed, in that order."""
        return [row for row, _ in self.failures]

    @property
    def failures(self) -> list[tuple[Row, Failure]]:
        """The input rows that failed, with the failure that the spout would receive."""
        return list(self._results.collected().failed)

    @property
    def held(self) -> list[Row]:
        """The input rows that are neither acked nor failed."""
        return [row for row, _ in self._results.collected().open.values()]

    @property
    def unanchored(self) -> list[Row]:
        """What was emitted without an anchor: if it is lost, no message fails."""
        return list(self._results.collected().unanchored)

    @property
    def errors(self) -> list[ErrorReport]:
        """The last errors in the bolt's code."""
        return self._env.errors.last

    def stream(self, name: str) -> list[Row]:
        """What was emitted on a stream."""
        return list(self._results.collected().emitted.get(name, ()))

    async def execute(self, *values: Any, stream: str = DEFAULT_STREAM, timeout_s: float = WAIT_S) -> list[Row]:
        """Execute one tuple; returns what was emitted on the default stream meanwhile.

        ScriptError if the values do not fit, WaitTimeoutError after `timeout_s`, ActorEscalatedError if the bolt has
        failed more often than its restart policy allows.
        """
        fields = self._inputs.get(stream)
        if fields is None:
            raise ScriptError(f"the harness has no input stream {stream!r}; declared: {', '.join(self._inputs)}")
        if len(values) != len(fields):
            raise ScriptError(f"{values!r:.200} has {len(values)} values; the fields are: {', '.join(fields)}")
        before = len(self.emitted)
        segment = self._source.segment(values, stream)
        self._results.open[segment.root] = (values, segment)
        self._guardian.check()
        await self._task.mailbox.put(segment)
        watermark = self._source.watermark_after(segment)
        if watermark is not None:
            await self._task.mailbox.put(watermark)
        await self._changes.until(self._is_done, timeout_s, self._describe)
        self._guardian.check()
        return self.emitted[before:]

    # -- inside ------------------------------------------------------------------------------------------------------

    async def start(self, system: ActorSystem) -> None:
        """Prepare the bolt."""
        system.spawn(self._guardian, "harness")
        await self._changes.until(lambda: self._task.ready.done() or self._guardian.error is not None, None, str)
        self._guardian.check()

    def _is_done(self) -> bool:
        return self._task.is_idle or self._guardian.error is not None

    def _describe(self) -> str:
        return (
            f"the bolt was still executing {self.held!r:.200}. Pending:\n{pending_tasks(asyncio.get_running_loop())}\n"
        )


@asynccontextmanager
async def bolt_harness(
    bolt: Component | Callable[[], Component],
    fields: str | tuple[str, ...] | list[str] | Fields | Mapping[str, Any] = "value",
    config: Config | Mapping[str, Any] | None = None,
    *,
    resources: Mapping[str, Any] | None = None,
) -> AsyncIterator[BoltHarness]:
    """Run one task of a bolt: `async with bolt_harness(Count(), fields="word") as h: await h.execute("a")`.

    `bolt` is what `set_bolt` takes. `fields` are the names of the input's values, or stream → names. On a direct stream
    `context.tasks("output")` is the receiving task. `resources`: name → what `context.resource(name)` gives. Raises
    TopologyError if the bolt cannot be part of a topology, ActorEscalatedError if it cannot be prepared.
    """
    inputs = {
        name: Fields(*([given] if isinstance(given, str) else given)) for name, given in _by_stream(fields).items()
    }
    settings = Config().merge(config).merge({"acker_executors": 1})
    topology = _topology(bolt, inputs)
    plan = make_plan(_without_refusals(topology), settings)
    [task_spec] = [task for task in plan.tasks if task.component == BOLT]
    spec = topology.components[BOLT]
    own = component_config(settings, spec.config)
    mailboxes = {task.task_id: Mailbox(_CAPACITY_TUPLES) for task in plan.tasks}
    async with ActorSystem("harness") as system:
        system.on_failure = _reported
        env = Environment(
            name="harness",
            topology=topology,
            plan=plan,
            config=settings,
            clock=system.clock,
            rng=system.rng,
            errors=ErrorLog("harness"),
            mailboxes=mailboxes,
            acker_ids=plan.tasks_of[ACKER_COMPONENT],
            resources=dict(resources or {}),
        )
        harness = BoltHarness(BoltTask(env, task_spec, spec, own), env, inputs)
        await harness.start(system)
        yield harness


class _HarnessSource:
    """In place of the spout: makes segments of rows, and watermarks if the bolt follows the time of its rows."""

    def __init__(self, task: BoltTask, env: Environment, inputs: Mapping[str, Fields]) -> None:
        self._env = env
        self._ids = env.ids()
        self._origins = {stream: Origin(INPUT, 1, stream, fields) for stream, fields in inputs.items()}
        self._clock: StreamClock | None = None
        self._readers: dict[str, TimeReader] = {}
        follow = env.topology.components[BOLT].time.follow
        if follow is not None:
            clock = self._clock = follow.clock(task.config, exact=False)
            self._readers = {
                stream: TimeReader(clock, follow.timestamp, origin) for stream, origin in self._origins.items()
            }

    def segment(self, values: Row, stream: str) -> Segment:
        """A segment of one row."""
        origin = self._origins[stream]
        root = single_root(self._ids.take())  # a tree of one message: held rows stay in it
        segment = Segment(origin, [values[0] if origin.bare else values], root, self._ids.take(), [0])
        segment.ingested_ms = int(self._env.clock.now() * 1000)
        return segment

    def watermark_after(self, segment: Segment) -> Segment | None:
        """The watermark that is due after a segment; None: none is."""
        if self._clock is None:
            return None
        self._readers[segment.origin.stream].observe_unordered(segment.items)
        watermark_ms = self._clock.due_watermark(int(self._env.clock.monotonic() * 1000))
        if watermark_ms is None:
            return None
        return Segment(Origin(INPUT, 1, WATERMARK_STREAM, WATERMARK_FIELDS), [watermark_ms])


class _HarnessResults:
    """In place of consumers and ackers: what the bolt has emitted, acked and failed. `open`: root → row, segment."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.open: dict[int, tuple[Row, Segment]] = {}
        self.acked: list[Row] = []
        self.failed: list[tuple[Row, Failure]] = []
        self.emitted: dict[str, list[Row]] = {}
        self.unanchored: list[Row] = []

    def collected(self) -> Self:
        """Read the output of the task first."""
        for task_id in self._env.plan.tasks_of.get(OUTPUT, ()):
            for segment in self._env.mailboxes[task_id].take_batch(_CAPACITY_TUPLES):
                self.emitted.setdefault(segment.origin.stream, []).extend(segment.rows)
                if not segment.root and segment.lineage is None:
                    self.unanchored.extend(segment.rows)
        failures: dict[int, Failure | None] = {}
        [acker] = self._env.acker_ids
        while (message := self._env.mailboxes[acker].take_control()) is not EMPTY:
            if isinstance(message, Acks):
                failures.update((root, failure) for root, _, failure in message.failures or ())
        for root, (row, segment) in list(self.open.items()):
            if segment.open:
                continue
            del self.open[root]
            failure = failures.get(root)
            if failure is None:
                self.acked.append(row)
            else:
                self.failed.append((row, failure))
        return self


class _HarnessGuardian(Actor):
    """Parent of the bolt's task: restarts it as in production, except a bolt that cannot be prepared."""

    def __init__(self, task: BoltTask, changed: Callable[[], None]) -> None:
        self._bolt = task
        self._changed = changed
        self.error: BaseException | None = None

    def started(self) -> None:
        config = self._bolt.config
        policy = RestartPolicy(
            config.restart_max,
            config.restart_period_s,
            tuple(config.restart_backoff_s),
            decide=lambda _: Directive.RESTART if self._bolt.ready.done() else Directive.ESCALATE,
        )
        self._bolt.ready.add_done_callback(lambda _: self._changed())
        self.spawn(self._bolt, BOLT, policy=policy, mailbox=self._bolt.env.mailboxes[self._bolt.task.task_id])

    def receive(self, message: Any) -> None:
        raise TypeError(f"the guardian of a harness takes no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        self.error = error
        self._changed()

    def check(self) -> None:
        """Raise if the bolt has given up."""
        if self.error is not None:
            raise ActorEscalatedError(f"the bolt has given up: {self.error!r}") from self.error


def _reported(path: str, error: BaseException, decision: Decision) -> None:
    """A failure of the bolt: it is in the harness's errors and in the log already."""


def _by_stream(fields: Any) -> Mapping[str, Any]:
    return fields if isinstance(fields, Mapping) else {DEFAULT_STREAM: fields}


def _topology(bolt: Any, inputs: Mapping[str, Fields]) -> Topology:
    """input ─► bolt ─► output, where only the bolt will run."""
    builder = TopologyBuilder()
    builder.set_spout(INPUT, FixedSpout([], streams=inputs))
    declarer = builder.set_bolt(BOLT, bolt)
    key = _key_of(bolt)
    for stream in inputs:
        if key:
            declarer.fields_grouping(INPUT, *key, stream=stream)
        else:
            declarer.shuffle_grouping(INPUT, stream=stream)
    topology = builder.create_topology()
    outputs = topology.components[BOLT].outputs
    if not outputs:
        return topology
    output = builder.set_bolt(OUTPUT, Recorder)
    for stream, declared in outputs.items():
        subscribe = output.direct_grouping if declared.direct else output.global_grouping
        subscribe(BOLT, stream=stream)
    return builder.create_topology()


def _without_refusals(topology: Topology) -> Topology:
    """A harness has no snapshots: of a sink the test calls `pre_commit` and `commit` itself."""
    return replace(topology, components={name: replace(of, refused={}) for name, of in topology.components.items()})


def _key_of(bolt: Any) -> tuple[str, ...]:
    """The fields of its state by key; none: it has no such state, or cannot be made, which is reported later."""
    made = bolt
    if callable(bolt) and not isinstance(bolt, Component | type):
        try:
            made = bolt()
        except Exception:
            return ()
    key = getattr(getattr(made, "state", None), "key_fields", ())
    return key if isinstance(key, tuple) else ()
