"""Plan: the tasks of a topology, and the order of its bolts.

1. Task ids count from 1 in the order of declaration, the ackers last: the same topology and config give the same plan.
2. `feedback` is the set of edges that close a cycle. Without them the graph has no cycle. A sender must not wait for
   free capacity on such an edge: on all other edges waiting ends, since the last bolts always make progress.
3. `order` has every bolt once, after everything that it reads other than by feedback.

    spout ─▶ a ─▶ b ─▶ c          feedback = {(c's stream, "a")}
             ▲─────────╯           order = a, b, c

Storm: StormCommon.stormTaskInfo (there, ids are assigned by component name), systemTopologyImpl. Feedback is ours
(depart).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import TopologyError
from .feedback import Edge, edges_of, feedback_edges
from .guarantees import guarantee_problems
from .names import ACKER_COMPONENT
from .retention import retention_problems
from .state_checks import keyed_output_problems
from .time_flow import TimeFlow, time_flow

if TYPE_CHECKING:
    from .config import Config
    from .topology import Topology


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task: its id, its component, and its index among the component's tasks."""

    task_id: int
    component: str
    index: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a topology and the order of its bolts; see `make_plan`."""

    tasks: tuple[TaskSpec, ...]
    tasks_of: Mapping[str, tuple[int, ...]]
    order: tuple[str, ...]
    feedback: frozenset[Edge]
    time: TimeFlow

    def component_of(self, task_id: int) -> str:
        """The component of a task."""
        return self.tasks[task_id - 1].component

    @property
    def master(self) -> int:
        """The id for messages to the topology master. It is not a task: no tuples are emitted to it."""
        return len(self.tasks) + 1


def make_plan(topology: Topology, config: Config) -> Plan:
    """Assign task ids to components and ackers, and find the order of the bolts.

    TopologyError for windows that keep tuples longer, or more of them, than `config` allows for messages, for what
    cannot run with its guarantee, and for sinks that would have several writers of a key.
    """
    problems = retention_problems(topology, config) + guarantee_problems(topology, config)
    problems += keyed_output_problems(topology.components, config)
    if problems:
        raise TopologyError(problems)
    cap = config.max_task_parallelism
    counts = {
        spec.id: spec.parallelism if cap is None else min(spec.parallelism, cap)
        for spec in topology.components.values()
    }
    counts[ACKER_COMPONENT] = _ackers(config)
    tasks_of: dict[str, tuple[int, ...]] = {}
    first = 1
    for component, count in counts.items():
        tasks_of[component] = tuple(range(first, first + count))
        first += count
    return plan_with(topology, tasks_of)


def plan_with(topology: Topology, tasks_of: Mapping[str, tuple[int, ...]]) -> Plan:
    """The plan in which the components have these tasks, whose ids count from 1. ValueError for others."""
    tasks = [TaskSpec(task, component, i) for component, ids in tasks_of.items() for i, task in enumerate(ids)]
    if [task.task_id for task in tasks] != list(range(1, len(tasks) + 1)):
        raise ValueError(f"task ids count from 1, in the order of the components: {tasks_of!r:.200}")
    feedback = feedback_edges(topology)
    return Plan(tuple(tasks), dict(tasks_of), _order(topology, feedback), feedback, time_flow(topology, feedback))


def _ackers(config: Config) -> int:
    if config.guarantee != "at-least-once":
        return 0
    return config.workers if config.acker_executors is None else config.acker_executors


def _order(topology: Topology, feedback: frozenset[Edge]) -> tuple[str, ...]:
    """Bolts after their inputs; if several could be next, in the order of declaration."""
    edges = edges_of(topology)
    waiting = dict.fromkeys(topology.components, 0)
    for edge in (edge for outgoing in edges.values() for edge in outgoing if edge not in feedback):
        waiting[edge[1]] += 1
    ordered: list[str] = []
    left = list(topology.components)
    while left:
        component = next(c for c in left if not waiting[c])
        left.remove(component)
        ordered.append(component)
        for edge in edges[component]:
            if edge not in feedback:
                waiting[edge[1]] -= 1
    return tuple(component for component in ordered if topology.components[component].kind == "bolt")
