"""Environment: what the tasks of one running topology share.

Everything a task needs from outside comes through here, so that a test or another process can give it something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..acker import IdSource
from ..actors import Inbox, Mailbox
from ..runtime import Clock, Rng
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
)
from .emit.emit_buffer import Direct, OutStream, Route
from .emit.outbox import Outbox
from .emit.waiting import Group
from .exits import Exits
from .reports import ErrorLog, describe

T = TypeVar("T")

Wire = Callable[[int, int, Mailbox], Inbox]
"""What stands between two tasks: (sender's task id, receiver's, receiver's mailbox) → what the sender sees of it."""


def direct(source: int, target: int, mailbox: Mailbox) -> Inbox:
    """Nothing: the mailbox itself."""
    return mailbox


def _nothing() -> None:
    """Nobody waits for quiet."""


def _always(target: int) -> bool:
    """All is in this process."""
    return True


@dataclass(slots=True)
class Environment:
    """`mailboxes` has those of the tasks of this worker, by task id; `far` stands for those of other workers' tasks.

    `acker_ids` are the ackers' ids, in order (a root's is `root % len`). Who sends reaches a mailbox by `wire`. `near`
    are the tasks on this machine (None: all). `resources`: what the tasks of this worker share, by name.

    `on_idle` is called when a task has run out of work: somebody may be waiting for that. While not `sampling`, a task
    that emits or executes calls `wake`: the backpressure monitor sleeps. `reaches` says whether what is posted to a
    task goes there now. `memory` is what the tasks of one process share, groupings too (GroupingContext.shared).
    """

    name: str
    topology: Topology
    plan: Plan
    config: Config
    clock: Clock
    rng: Rng
    errors: ErrorLog
    mailboxes: Mapping[int, Mailbox]
    far: Mapping[int, Inbox] = field(default_factory=dict)
    near: frozenset[int] | None = None
    acker_ids: Sequence[int] = ()
    wire: Wire = direct
    on_idle: Callable[[], None] = field(default=_nothing)
    sampling: bool = True
    wake: Callable[[], None] = field(default=_nothing)
    reaches: Callable[[int], bool] = field(default=_always)
    memory: dict[Any, Any] = field(default_factory=dict)
    exits: Exits = field(default_factory=Exits)
    resources: dict[str, Any] = field(default_factory=dict)

    def ids(self) -> IdSource:
        """A supply of ids for one task."""
        return IdSource(self.rng.token_bytes)

    def ackers(self, task: TaskSpec) -> Sequence[Inbox]:
        """The ackers, as a task sees them."""
        if self.wire is direct:  # all see the same
            return self._shared(
                "ackers", "", lambda: [self.mailbox_of(task.task_id, acker) for acker in self.acker_ids]
            )
        return [self.mailbox_of(task.task_id, acker) for acker in self.acker_ids]

    def stream_fields(self) -> dict[tuple[str, str], Fields]:
        """(component, stream) → fields, of the whole topology."""
        return {
            (spec.id, stream): declared.fields
            for spec in self.topology.components.values()
            for stream, declared in spec.outputs.items()
        }

    def out_streams(self, task: TaskSpec, spec: ComponentSpec, config: Config, outbox: Outbox) -> dict[str, OutStream]:
        """The declared streams of a task, wired to the mailboxes of their consumers.

        TopologyError if a custom grouping cannot be prepared.
        """
        streams: dict[str, OutStream] = {}
        for name, declared in spec.outputs.items():
            source = StreamId(spec.id, name)
            origin = Origin(spec.id, task.task_id, name, declared.fields)
            subscriptions = self.topology.consumers_of(source)
            if declared.direct:
                streams[name] = OutStream(origin, (), Direct(self._takers(source), outbox))
                continue
            routes = []
            for subscription in subscriptions:
                targets = self.plan.tasks_of[subscription.consumer]
                never_waits = (source, subscription.consumer) in self.plan.feedback
                local, same_node = self._where(subscription.consumer)
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
                routes.append(Route(grouping, origin.bare, outlets, group))
            streams[name] = OutStream(origin, routes)
        return streams

    def hearers(self, component: str) -> Sequence[int]:
        """The tasks that hear how far time is at those of a component: by the outlets of its rows."""
        return self._shared("hearers", component, lambda: tuple(self._hearers(component)))

    def time_inputs(self, component: str) -> Mapping[int, bool]:
        """Input task → does it tell watermarks? Without those that close a cycle."""
        return self._shared("time inputs", component, lambda: self._time_inputs(component))

    def _where(self, consumer: str) -> tuple[frozenset[int], frozenset[int]]:
        """The tasks of a consumer that are in this process, and on this machine."""
        return self._shared("where", consumer, lambda: self._find_where(consumer))

    def _takers(self, source: StreamId) -> Mapping[int, bool]:
        """See Direct."""
        return self._shared("takers", source, lambda: self._find_takers(source))

    def _shared(self, what: str, of: Any, find: Callable[[], T]) -> T:
        """One of it for all tasks of this process: what is as long as a list of tasks is not made for each task."""
        key = Environment, what, of
        found: T | None = self.memory.get(key)
        if found is None:
            found = self.memory[key] = find()
        return found

    def _find_where(self, consumer: str) -> tuple[frozenset[int], frozenset[int]]:
        targets = self.plan.tasks_of[consumer]
        here = frozenset(target for target in targets if target not in self.far)
        return here, frozenset(targets if self.near is None else self.near.intersection(targets))

    def _find_takers(self, source: StreamId) -> dict[int, bool]:
        return {
            target: (source, subscription.consumer) in self.plan.feedback
            for subscription in self.topology.consumers_of(source)
            for target in self.plan.tasks_of[subscription.consumer]
        }

    def _hearers(self, component: str) -> Iterator[int]:
        time, feedback = self.plan.time, self.plan.feedback
        if component not in time.marks:
            return
        streams = [StreamId(component, name) for name in self.topology.components[component].outputs]
        consumers = [
            subscription.consumer
            for source in streams
            for subscription in self.topology.consumers_of(source)
            if (source, subscription.consumer) not in feedback and time.hears(subscription.consumer)
        ]
        for consumer in dict.fromkeys(consumers):
            yield from self.plan.tasks_of[consumer]

    def _time_inputs(self, component: str) -> dict[int, bool]:
        time, feedback = self.plan.time, self.plan.feedback
        return {
            task: subscription.source.component in time.tells
            for subscription in self.topology.components[component].inputs
            if (subscription.source, component) not in feedback
            for task in self.plan.tasks_of[subscription.source.component]
        }

    def mailbox_of(self, source: int, target: int) -> Inbox:
        """What a task sees of another one's mailbox."""
        far = self.far.get(target)
        return far if far is not None else self.wire(source, target, self.mailboxes[target])

    def is_high(self, target: int) -> bool:
        """Is a task's mailbox past its high mark (or, elsewhere, does it take nothing now)?"""
        far = self.far.get(target)
        return far.is_high if far is not None else self.mailboxes[target].is_high

    def row_s(self, target: int) -> float:
        """How many seconds a task works for a row, lately; 0.0: it has measured nothing yet."""
        far = self.far.get(target)
        return far.row_s if far is not None else self.mailboxes[target].row_s


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
