"""Environment: what the tasks of one running topology share.

Everything a task needs from outside comes through here, so that a test or another process can give it something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..acker import IdSource
from ..actors import Clock, Inbox, Mailbox, Rng
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
from .branches import OutStream, Route
from .outbox import Outbox, Outlet
from .reports import ErrorLog, describe
from .waiting import Group

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
    are the tasks on this machine (None: all).

    `on_quiet` is called when a task has run out of work: somebody may be waiting for that. While not `awake`, a task
    that emits or executes calls `wake`: the gauge sleeps. `reaches` says whether what is posted to a task goes there
    now.
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
    on_quiet: Callable[[], None] = field(default=_nothing)
    awake: bool = True
    wake: Callable[[], None] = field(default=_nothing)
    reaches: Callable[[int], bool] = field(default=_always)
    grouping_memory: dict[Any, Any] = field(default_factory=dict)

    def ids(self) -> IdSource:
        """A supply of ids for one task."""
        return IdSource(self.rng.token_bytes)

    def ackers(self, task: TaskSpec) -> list[Inbox]:
        """The ackers, as a task sees them."""
        return [self.reach(task.task_id, acker) for acker in self.acker_ids]

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
                outlets = {
                    target: outbox.outlet(
                        target, self.reach(task.task_id, target), never_waits=(source, s.consumer) in self.plan.feedback
                    )
                    for s in subscriptions
                    for target in self.plan.tasks_of[s.consumer]
                }
                streams[name] = OutStream(origin, True, (), outlets)
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
                    shared=self.grouping_memory,
                )
                grouping = _prepared(subscription, context, targets)
                outlets = {t: outbox.outlet(t, self.reach(task.task_id, t), never_waits=never_waits) for t in targets}
                group = None
                if isinstance(grouping, Spreading) and len(grouping.targets) > 1 and not never_waits:
                    group = Group(outbox, grouping, outlets)
                routes.append(Route(grouping, origin.bare, outlets, group))
            streams[name] = OutStream(origin, False, routes)
        return streams

    def _where(self, consumer: str) -> tuple[frozenset[int], frozenset[int]]:
        """The tasks of a consumer that are in this process, and on this machine: one pair of sets for all emitters."""
        found: tuple[frozenset[int], frozenset[int]] | None = self.grouping_memory.get((Environment, consumer))
        if found is None:
            targets = self.plan.tasks_of[consumer]
            here = frozenset(target for target in targets if target not in self.far)
            found = here, frozenset(targets if self.near is None else self.near.intersection(targets))
            self.grouping_memory[Environment, consumer] = found
        return found

    def mark_outlets(self, task: TaskSpec, outbox: Outbox) -> dict[int, Outlet]:
        """Consumer task → the outlet by which it hears how far time is at this one: that of its rows."""
        time, feedback = self.plan.time, self.plan.feedback
        if task.component not in time.marks:
            return {}
        streams = [StreamId(task.component, name) for name in self.topology.components[task.component].outputs]
        consumers = [
            subscription.consumer
            for source in streams
            for subscription in self.topology.consumers_of(source)
            if (source, subscription.consumer) not in feedback and time.hears(subscription.consumer)
        ]
        targets = [target for consumer in dict.fromkeys(consumers) for target in self.plan.tasks_of[consumer]]
        return {t: outbox.outlet(t, self.reach(task.task_id, t), never_waits=False) for t in targets}

    def time_inputs(self, component: str) -> dict[int, bool]:
        """Input task → does it tell watermarks? Without those that close a cycle."""
        time, feedback = self.plan.time, self.plan.feedback
        return {
            task: subscription.source.component in time.tells
            for subscription in self.topology.components[component].inputs
            if (subscription.source, component) not in feedback
            for task in self.plan.tasks_of[subscription.source.component]
        }

    def reach(self, source: int, target: int) -> Inbox:
        """What a task sees of another one's mailbox."""
        far = self.far.get(target)
        return far if far is not None else self.wire(source, target, self.mailboxes[target])

    def is_high(self, target: int) -> bool:
        """Is a task's mailbox past its high mark (or, elsewhere, does it take nothing now)?"""
        far = self.far.get(target)
        return far.is_high if far is not None else self.mailboxes[target].is_high


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
