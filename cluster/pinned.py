"""Pinned: tasks of components that only some of the workers may run; the scheduler's placement with these. Pure.

    pinned: detect → w2, w3      detect ×3, split ×2, count ×4, acker ×3     w1: acker split count count
                                                                             w2: detect detect acker count
                                                                             w3: detect split acker count

1. A task of a pinned component is placed on one of its workers, and nowhere else. These share its tasks evenly.
2. Then the other tasks are placed, in the order of the stream, each on the worker with the fewest: so the workers'
   numbers of tasks differ by at most one, as far as pins allow.
3. With a previous placement each task stays that may stay; only the others are placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..topology import TopologyError

if TYPE_CHECKING:
    from ..topology import Topology

Pinned = Mapping[str, Collection[str]]
"""Component → the names of the workers that alone may run its tasks."""

SHOWN: Final = 5


def check_pinned(topology: Topology, pinned: Pinned, workers: Sequence[str]) -> None:
    """TopologyError for components that are not there, or that none of these workers may run."""
    problems: list[str] = []
    for name, may_run in pinned.items():
        spec = topology.components.get(name)
        if spec is None:
            problems.append(f"there is no component {name!r} to be pinned: there are {', '.join(topology.components)}")
        elif spec.on_driver:
            problems.append(f"{name!r} belongs to the process of the driver, and cannot be pinned")
        elif not set(may_run) & set(workers):
            listed = ", ".join(workers[:SHOWN]) + (", …" if len(workers) > SHOWN else "")
            problems.append(f"none of the workers ({listed or 'there are none'}) may run {name!r}, which is pinned")
    if problems:
        raise TopologyError(problems)


def place_pinned(
    tasks_of: Mapping[str, Sequence[int]],
    order: Sequence[str],
    neighbours: Mapping[str, Collection[str]],
    names: Sequence[str],
    pinned: Pinned,
    previous: Mapping[int, str] | None = None,
) -> dict[int, str]:
    """Task id → worker. `order`: all components; `neighbours`: of each component, by subscriptions."""
    total: Counter[str] = Counter()
    own: dict[str, Counter[str]] = {component: Counter() for component in order}
    placed: dict[int, str] = {}

    def put(component: str, task: int, worker: str) -> None:
        placed[task] = worker
        total[worker] += 1
        own[component][worker] += 1

    allowed = {component: [name for name in names if name in pinned.get(component, names)] for component in order}
    for component in order:
        for task in tasks_of[component]:
            if previous is not None and previous.get(task) in allowed[component]:
                put(component, task, previous[task])
    for component in sorted(
        order, key=lambda component: len(allowed[component]) if component in pinned else len(names)
    ):
        for task in tasks_of[component]:
            if task in placed:
                continue
            near = Counter[str]()
            for other in neighbours.get(component, ()):
                near.update(own[other])
            if component in pinned:
                best = min(allowed[component], key=lambda name: (own[component][name], total[name]))
            else:
                best = min(names, key=lambda name: (total[name], own[component][name], -near[name]))
            put(component, task, best)
    return placed
