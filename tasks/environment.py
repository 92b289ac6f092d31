"""Environment: what the tasks of one running topology share.

A task receives everything from outside through its environment, so a test or another process can replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

from ..acker import IdSource
from ..actors import Inbox, Mailbox
from ..metrics import Names, SpanRing, mask_of
from ..topology import (
    ComponentSpec,
    Config,
    Fields,
    Grouping,
    GroupingContext,
    Origin,
    Plan,
    Spreading,
    StreamId,
    Subscription,
    TaskSpec,
    Topology,
    TopologyError,
    component_config,
)
from .emit.following import Following, TimedSplit, TimeReader
from .emit.out_streams import Direct, OutStream, Route
from .emit.waiting import Group
from .exits import Exits
from .reports import ErrorLog, describe

if TYPE_CHECKING:
    from ..runtime import Clock, Rng
    from ..topology import ResourceValue, SharedObject
    from ..windows import RowTime, StreamClock
    from .emit.outbox import Outbox
    from .emit.watermarks import WatermarkEmitter
    from .snapshots.agent import SnapshotAgent

T = TypeVar("T")

MailboxWrapper = Callable[[int, int, Mailbox], Inbox]
"""(sender's task id, receiver's task id, receiver's mailbox) → the inbox that the sender uses for the receiver."""


def direct(source: int, target: int, mailbox: Mailbox) -> Inbox:
    """The mailbox itself, with nothing in between."""
    return mailbox


def _nothing() -> None:
    """Does nothing."""


def _always(target: int) -> bool:
    """All tasks are in this process."""
    return True


@dataclass(slots=True)
class Environment:
    """`mailboxes`: by task id, for the tasks of this worker; `remote`: inboxes for the tasks of other workers.

    `acker_ids`: the ackers, in order (a root belongs to number `root % len`). A sender reaches a mailbox by
    `mailbox_wrapper`.
    `same_machine`: the tasks on this machine (None: all). `resources`: shared by the tasks of this worker, by name.

    `on_idle` is called when a task has run out of work; by a bolt task only if `bolts_matter`. While not `sampling`, a
    task that emits or executes calls `wake`, because the backpressure monitor sleeps. `reaches`: can a message be
    posted to a task now? `memory`: shared by the tasks of one process, groupings included (GroupingContext.shared).
    `snapshots`: None without exactly once.
    """

    name: str
    topology: Topology
    plan: Plan
    config: Config
    clock: Clock
    rng: Rng
    errors: ErrorLog
    mailboxes: Mapping[int, Mailbox]
    remote: Mapping[int, Inbox] = field(default_factory=dict)
    same_machine: frozenset[int] | None = None
    acker_ids: Sequence[int] = ()
    mailbox_wrapper: MailboxWrapper = direct
    on_idle: Callable[[], None] = field(default=_nothing)
    bolts_matter: bool = True
    sampling: bool = True
    wake: Callable[[], None] = field(default=_nothing)
    reaches: Callable[[int], bool] = field(default=_always)
    memory: dict[object, SharedObject] = field(default_factory=dict)
    exits: Exits = field(default_factory=Exits)
    resources: dict[str, ResourceValue] = field(default_factory=dict)
    snapshots: SnapshotAgent | None = None

    def ids(self) -> IdSource:
        """A source of ids for one task."""
        return IdSource(self.rng.token_bytes)

    def ackers(self, task: TaskSpec) -> Sequence[Inbox]:
        """The inboxes of the ackers, as a task uses them."""
        if self.mailbox_wrapper is direct:  # the same for all tasks
            return self._shared(
                "ackers", "", lambda: [self.mailbox_of(task.task_id, acker) for acker in self.acker_ids]
            )
        return [self.mailbox_of(task.task_id, acker) for acker in self.acker_ids]

    def metric_names(self) -> Names:
        """The names of what the components measure by themselves, in this process."""
        return self._shared("metric names", "", Names)

    def span_ring(self) -> SpanRing:
        """What is kept of sampled trees, in this process."""
        return self._shared("spans", "", SpanRing)

    @property
    def span_mask(self) -> int:
        """The bits of the roots that are sampled."""
        return mask_of(self.config.trace_one_in)

    def stream_fields(self) -> dict[tuple[str, str], Fields]:
        """(component, stream) → fields, of the whole topology."""
        return {
            (spec.id, stream): declared.fields
            for spec in self.topology.components.values()
            for stream, declared in spec.outputs.items()
        }

    def out_streams(self, task: TaskSpec, spec: ComponentSpec, config: Config, outbox: Outbox) -> dict[str, OutStream]:
        """The declared streams of a task, connected to the mailboxes of their consumers.

        TopologyError if a custom grouping cannot be prepared.
        """
        streams: dict[str, OutStream] = {}
        for name, declared in spec.outputs.items():
            source = StreamId(spec.id, name)
            origin = Origin(spec.id, task.task_id, name, declared.fields)
            subscriptions = self.topology.consumers_of(source)
            if declared.direct:
                streams[name] = OutStream(origin, (), Direct(self._direct_receivers(source), outbox))
                continue
            routes = []
            for subscription in subscriptions:
                targets = self.plan.tasks_of[subscription.consumer]
                never_waits = (source, subscription.consumer) in self.plan.feedback
                local, same_node = self._local_targets(subscription.consumer)
                context = GroupingContext(
                    component=spec.id,
                    task_id=task.task_id,
                    consumer=subscription.consumer,
                    fields=declared.fields,
                    rng=self.rng.generator(),
                    is_high=self.is_high,
                    local=local,
                    same_node=same_node,
                    cache_keys=config.routing_cache_keys,
                    shared=self.memory,
                    row_s=self.row_s,
                )
                grouping = _prepared(subscription, context, targets)
                outlets = outbox.edge(never_waits=never_waits)
                group = None
                if isinstance(grouping, Spreading) and len(grouping.targets) > 1 and not never_waits:
                    group = Group(outbox, grouping, outlets)
                routes.append(Route(subscription.consumer, grouping, origin.bare, outlets, group))
            streams[name] = OutStream(origin, routes)
        return streams

    def following(self, task: TaskSpec, streams: Iterable[OutStream], watermarks: WatermarkEmitter) -> Following | None:
        """The timestamps that a task reads in what it emits, for its consumers; None: it reads none."""
        flow = self.plan.time
        if task.component in flow.sends_watermarks or task.component not in flow.sends_time:
            return None
        clocks: dict[str, StreamClock] = {}
        readers: dict[OutStream, list[TimeReader]] = {}
        for stream in streams:
            source = StreamId(task.component, stream.origin.stream)
            for subscription, route in zip_longest(self.topology.consumers_of(source), stream.routes):
                name = subscription.consumer
                row_time: RowTime | None = self.topology.components[name].time.follow
                if row_time is None or (source, name) in self.plan.feedback:
                    continue
                if name not in clocks:
                    config = component_config(self.config, self.topology.components[name].config)
                    clocks[name] = row_time.clock(config, exact=name in flow.sends_time)
                known = readers.setdefault(stream, [])
                reader = next((reader for reader in known if reader.clock is clocks[name]), None)
                if reader is None:
                    reader = TimeReader(clocks[name], row_time.timestamp, stream.origin)
                    known.append(reader)
                if reader.uses_function and not stream.direct:
                    route.split, route.only = TimedSplit(route.split, reader), None
        if not clocks:
            return None
        watermarks.followed = clocks
        watermarks.clocks = {consumer: clock for name, clock in clocks.items() for consumer in self.plan.tasks_of[name]}
        tasks = {clock: self.plan.tasks_of[name] for name, clock in clocks.items()}
        return Following(readers, tasks, watermarks, self.clock.monotonic)

    def watermark_receivers(self, component: str) -> Sequence[int]:
        """The tasks that a component's watermarks go to, on the same outlets as its rows."""
        return self._shared("watermark receivers", component, lambda: tuple(self._watermark_receivers(component)))

    def barrier_receivers(self, component: str) -> Sequence[int]:
        """The tasks that a component may send rows to, each once."""
        return self._shared("barrier receivers", component, lambda: self._barrier_receivers(component))

    def barrier_senders(self, component: str) -> Sequence[int]:
        """The tasks that may send rows to a component, each once."""
        return self._shared("barrier senders", component, lambda: self._barrier_senders(component))

    def time_inputs(self, component: str) -> Mapping[int, bool]:
        """Input task → does it send watermarks? Without edges that close a cycle."""
        return self._shared("time inputs", component, lambda: self._time_inputs(component))

    def _local_targets(self, consumer: str) -> tuple[frozenset[int], frozenset[int]]:
        """The tasks of a consumer that are in this process, and on this machine."""
        return self._shared("local targets", consumer, lambda: self._find_local_targets(consumer))

    def _direct_receivers(self, source: StreamId) -> Mapping[int, bool]:
        return self._shared("direct receivers", source, lambda: self._find_direct_receivers(source))

    def _shared(self, what: str, of: object, find: Callable[[], T]) -> T:
        """One value for all tasks of this process: lists as long as the number of tasks are not built for each task."""
        key = Environment, what, of
        found: T | None = self.memory.get(key)
        if found is None:
            found = self.memory[key] = find()
        return found

    def _find_local_targets(self, consumer: str) -> tuple[frozenset[int], frozenset[int]]:
        targets = self.plan.tasks_of[consumer]
        here = frozenset(target for target in targets if target not in self.remote)
        return here, frozenset(targets if self.same_machine is None else self.same_machine.intersection(targets))

    def _find_direct_receivers(self, source: StreamId) -> dict[int, bool]:
        return {
            target: (source, subscription.consumer) in self.plan.feedback
            for subscription in self.topology.consumers_of(source)
            for target in self.plan.tasks_of[subscription.consumer]
        }

    def _watermark_receivers(self, component: str) -> Iterator[int]:
        time, feedback = self.plan.time, self.plan.feedback
        if component not in time.sends_time:
            return
        streams = [StreamId(component, name) for name in self.topology.components[component].outputs]
        consumers = [
            subscription.consumer
            for source in streams
            for subscription in self.topology.consumers_of(source)
            if (source, subscription.consumer) not in feedback and time.receives_time(subscription.consumer)
        ]
        for consumer in dict.fromkeys(consumers):
            yield from self.plan.tasks_of[consumer]

    def _barrier_receivers(self, component: str) -> list[int]:
        streams = [StreamId(component, name) for name in self.topology.components[component].outputs]
        consumers = dict.fromkeys(each.consumer for stream in streams for each in self.topology.consumers_of(stream))
        return [task for consumer in consumers for task in self.plan.tasks_of[consumer]]

    def _barrier_senders(self, component: str) -> list[int]:
        sources = dict.fromkeys(each.source.component for each in self.topology.components[component].inputs)
        return [task for source in sources for task in self.plan.tasks_of[source]]

    def _time_inputs(self, component: str) -> dict[int, bool]:
        time, feedback = self.plan.time, self.plan.feedback
        return {
            task: subscription.source.component in time.sends_watermarks
            for subscription in self.topology.components[component].inputs
            if (subscription.source, component) not in feedback
            for task in self.plan.tasks_of[subscription.source.component]
        }

    def mailbox_of(self, source: int, target: int) -> Inbox:
        """The inbox through which one task sends to another."""
        remote = self.remote.get(target)
        return remote if remote is not None else self.mailbox_wrapper(source, target, self.mailboxes[target])

    def is_high(self, target: int) -> bool:
        """Is the fill of a task's mailbox above its high mark? (In another worker: does it accept nothing now?)"""
        remote = self.remote.get(target)
        return remote.is_high if remote is not None else self.mailboxes[target].is_high

    def row_s(self, target: int) -> float:
        """How many seconds a task needs for a row, lately; 0.0: not measured yet."""
        remote = self.remote.get(target)
        return remote.reader.row_s if remote is not None else self.mailboxes[target].reader.row_s


def _prepared(subscription: Subscription, context: GroupingContext, targets: Sequence[int]) -> Grouping:
    grouping = subscription.make()
    try:
        grouping.prepare(context, subscription.source, targets)
    except Exception as error:
        problem = (
            f"bolt {subscription.consumer!r}: its {subscription.kind} grouping of stream "
            f"{subscription.source.stream!r} of {subscription.source.component!r} cannot be prepared: {describe(error)}"
        )
        raise TopologyError([problem]) from error
    return grouping
