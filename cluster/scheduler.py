"""Scheduler: which worker runs which task. Pure: a plan and the workers in, a placement out.

    ackers and spouts, then the bolts in the order of the stream    extras are exchanged while that brings neighbours
    acker ×2   lines ×1   split ×2   count ×4   ── dealt out ─►      together
    w1: lines  split      count count           w2: split count count  …

1. Even: the workers' numbers of tasks differ by at most one.
2. The tasks of a component are spread: in a new placement the workers' numbers of tasks of each component differ by at
   most one. So with as many ackers as workers, each worker has one.
3. Neighbours in the graph share a worker as far as 1 and 2 allow: tuples within a worker are not encoded.
4. The same input gives the same placement. Workers of several nodes take turns.
5. If one of the workers is the driver's, it has the components that belong there (`Component.on_driver`), and no
   others. The other rules then apply to the other workers.
6. With a `previous` placement, only as many tasks move as rule 1 requires: those of workers that have ended, and the
   surplus of a worker when another one joins. A moved task goes where its component has the fewest tasks; rule 2 may
   then be violated.
7. Tasks of pinned components are placed only on the workers that may run them; the other rules then hold as far as that
   allows (pinned.py).

From: Storm's DefaultScheduler and EvenScheduler (slots sorted by node in turns, executors dealt out). 3 is ours; Storm
leaves it to its ResourceAwareScheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .pinned import place_pinned

if TYPE_CHECKING:
    from ..topology import Plan, Topology
    from .pinned import Pinned

Placement = Mapping[int, str]
"""Task id → name of its worker."""

_TasksOf = Mapping[str, Sequence[int]]

MAX_EXCHANGES: Final = 200
"""The largest number of exchanges, so that a placement takes milliseconds for any topology."""

MAX_EXTRAS: Final = 120
"""With more extras none is exchanged, since all pairs would be compared."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker and its node (machine). `on_driver`: it runs the components that belong there, and no others."""

    name: str
    node: str = ""
    on_driver: bool = False


def place(
    topology: Topology,
    plan: Plan,
    workers: Sequence[WorkerInfo],
    previous: Placement | None = None,
    pinned: Pinned | None = None,
) -> dict[int, str]:
    """Task id → worker. ValueError without workers, or with two of the same name.

    `pinned`: component → the workers that alone may run its tasks; it is already checked (see check_pinned).
    """
    names = _in_turns([worker for worker in workers if not worker.on_driver])
    if not names or len({worker.name for worker in workers}) < len(workers):
        raise ValueError(f"tasks need one or more workers with different names, not {names}")
    kept = {task: worker.name for worker in workers if worker.on_driver for task in tasks_on_driver(topology, plan)}
    tasks_of = {component: tasks for component, tasks in plan.tasks_of.items() if kept.keys().isdisjoint(tasks)}
    if pinned:
        order = _in_order(tasks_of, plan)
        placed = place_pinned(tasks_of, order, _neighbours(topology, tasks_of), names, pinned, previous)
    elif previous is not None and any(task.task_id in previous for task in plan.tasks):
        placed = _moved(tasks_of, names, previous)
    else:
        placed = _NewPlacement(topology, plan, tasks_of, names).placement()
    return dict(sorted({**placed, **kept}.items()))


def tasks_on_driver(topology: Topology, plan: Plan) -> tuple[int, ...]:
    """The tasks that belong on the driver."""
    return tuple(task for spec in topology.components.values() if spec.on_driver for task in plan.tasks_of[spec.id])


def _in_turns(workers: Sequence[WorkerInfo]) -> list[str]:
    """The workers' names: the first of each node, then the second of each, and so on."""
    nth: Counter[str] = Counter()
    keyed = []
    for place_in_order, worker in enumerate(workers):
        keyed.append((nth[worker.node], place_in_order, worker.name))
        nth[worker.node] += 1
    return [name for _, _, name in sorted(keyed)]


def _in_order(tasks_of: _TasksOf, plan: Plan) -> list[str]:
    """The components in the order of the stream; first those that are in no stream, the ackers."""
    return [*(c for c in tasks_of if c not in plan.order), *(c for c in plan.order if c in tasks_of)]


def _neighbours(topology: Topology, tasks_of: _TasksOf) -> dict[str, Counter[str]]:
    """Component → those with which it shares a stream, and how many streams."""
    found: dict[str, Counter[str]] = {component: Counter() for component in tasks_of}
    for spec in topology.components.values():
        for subscription in spec.inputs:
            one, other = subscription.source.component, spec.id
            if one in tasks_of and other in tasks_of:
                found[one][other] += 1
                found[other][one] += 1
    return found


class _NewPlacement:
    """A new placement: each component has its share on every worker, and `extras` on some."""

    def __init__(self, topology: Topology, plan: Plan, tasks_of: _TasksOf, names: Sequence[str]) -> None:
        self._tasks_of = tasks_of
        self._order = _in_order(tasks_of, plan)
        self._names = names
        self._neighbours = _neighbours(topology, tasks_of)
        self._extras: dict[str, set[int]] = {}
        self._assign_extras()
        self._bring_together()

    def placement(self) -> dict[int, str]:
        """Task id → worker."""
        placed: dict[int, str] = {}
        workers = range(len(self._names))
        for component, tasks in self._tasks_of.items():
            share = len(tasks) // len(self._names)
            slots = [w for _ in range(share) for w in workers] + sorted(self._extras[component])
            placed.update({task: self._names[w] for task, w in zip(tasks, slots, strict=True)})
        return placed

    def _assign_extras(self) -> None:
        """Assign the extras of all components to the workers in turn."""
        workers, next_one = len(self._names), 0
        for component in self._order:
            count = len(self._tasks_of[component]) % workers
            self._extras[component] = {(next_one + i) % workers for i in range(count)}
            next_one += count

    def _bring_together(self) -> None:
        """Exchange two extras of two workers while that helps; rules 1 and 2 stay true."""
        if sum(map(len, self._extras.values())) > MAX_EXTRAS:
            return
        for _ in range(MAX_EXCHANGES):
            best = max(self._exchanges(), default=None, key=lambda exchange: exchange[0])
            if best is None or best[0] <= 0:
                return
            _, one, here, other, there = best
            self._extras[one].remove(here)
            self._extras[one].add(there)
            self._extras[other].remove(there)
            self._extras[other].add(here)

    def _exchanges(self) -> list[tuple[int, str, int, str, int]]:
        """(gain, component, its worker, other component, its worker)."""
        extras = [(component, worker) for component, found in self._extras.items() for worker in sorted(found)]
        found = []
        for i, (one, here) in enumerate(extras):
            for other, there in extras[i + 1 :]:
                if here == there or one == other:
                    continue
                if there in self._extras[one] or here in self._extras[other]:
                    continue
                gain = self._gain(one, here, there, other) + self._gain(other, there, here, one)
                found.append((gain, one, here, other, there))
        return found

    def _gain(self, component: str, here: int, there: int, but: str) -> int:
        """How many more neighbours an extra would have on another worker, without the one that it is exchanged with."""
        return sum(
            times * ((there in self._extras[near]) - (here in self._extras[near]))
            for near, times in self._neighbours[component].items()
            if near not in (but, component)
        )


def _moved(tasks_of: _TasksOf, names: Sequence[str], previous: Placement) -> dict[int, str]:
    """The previous placement, made even with the fewest changes."""
    component_of = dict(sorted((task, component) for component, tasks in tasks_of.items() for task in tasks))
    placed: dict[str, list[int]] = {name: [] for name in names}
    homeless: list[int] = []
    for task in component_of:
        placed.get(previous.get(task, ""), homeless).append(task)
    share, extras = divmod(len(component_of), len(names))
    fullest = sorted(names, key=lambda name: (-len(placed[name]), names.index(name)))
    limit_of = {name: share + (place_in_order < extras) for place_in_order, name in enumerate(fullest)}
    for name in names:
        while len(placed[name]) > limit_of[name]:
            crowd = Counter(component_of[task] for task in placed[name])
            leaving = max(placed[name], key=lambda task: (crowd[component_of[task]], task))
            placed[name].remove(leaving)
            homeless.append(leaving)
    for task in sorted(homeless):
        component = component_of[task]
        free = [name for name in names if len(placed[name]) < limit_of[name]]
        there = min(free, key=lambda name: (sum(component_of[t] == component for t in placed[name]), len(placed[name])))
        placed[there].append(task)
    return {task: name for name, tasks in placed.items() for task in tasks}
