"""Restoring: may a component of a topology begin with what it has in a snapshot?

| what it has | at the same parallelism | at another one |
|---|---|---|
| KeyedState, declared as it was | yes | yes: each task takes the keys that it owns |
| ValueState, declared as it was | yes | no |
| a spout's position | yes | no |
| windows by a key, grouped by it as they were | yes | yes: each task takes the windows of the keys that it owns |
| other windows | yes | no |
| nothing | yes | yes |

A component that the snapshot does not have begins from the start; one that the topology no longer has is left out, with
a warning in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...state import ComponentPlan, ForeignError, check_restorable
from ...topology import KeyRanges, window_division

if TYPE_CHECKING:
    from ...state import Manifest
    from ...topology import ComponentSpec, Plan, Topology


class Components:
    """The components of a topology: what its manifests say about them, and which manifests fit them."""

    __slots__ = ("_plan", "_topology", "plans")

    def __init__(self, topology: Topology, plan: Plan) -> None:
        self._plan = plan
        self._topology = topology
        self.plans = component_plans(topology, plan)

    def check(self, manifest: Manifest) -> None:
        """ForeignError if some component cannot begin with what it has in the snapshot."""
        for spec in self._topology.components.values():
            check_component(manifest, spec, len(self._plan.tasks_of[spec.id]))


def component_plans(topology: Topology, plan: Plan) -> tuple[ComponentPlan, ...]:
    """What a manifest says about the components of a topology."""
    found: list[ComponentPlan] = []
    for spec in topology.components.values():
        tasks, declared = plan.tasks_of[spec.id], spec.state
        key = window_key(spec) if declared is None else tuple(declared.key_fields)
        ranges = KeyRanges.for_tasks(len(tasks)).n_ranges if key else 0
        found.append(ComponentPlan(spec.id, tasks, ranges, key, 0 if declared is None else declared.version))
    return tuple(found)


def window_key(spec: ComponentSpec) -> tuple[str, ...]:
    """By which fields its windows could be divided among other tasks; none: it has none, or they could not."""
    return () if spec.time.key is None else window_division(spec.time.key, spec.inputs).key


def check_component(manifest: Manifest, spec: ComponentSpec, n_tasks: int) -> Sequence[int]:
    """The tasks that the component had in the snapshot; none: it begins from the start. ForeignError if it cannot."""
    plan = manifest.component(spec.id)
    if plan is None:
        return ()
    if spec.state is not None or plan.version:
        check_restorable(plan, spec.state, n_tasks)
    elif spec.time.key is not None and plan.key != window_key(spec):
        raise ForeignError(
            f"bolt {spec.id!r}: in snapshot {manifest.number} the rows of its windows were grouped "
            f"{_by(plan.key)}, and now they are {_by(window_key(spec))}: other tasks would get the rows of a "
            "key than have its windows. Group them as before, or start with an empty folder"
        )
    if len(plan.tasks) != n_tasks and (why := _undivided(spec)):
        raise ForeignError(
            f"{spec.kind} {spec.id!r} had {len(plan.tasks)} tasks in snapshot {manifest.number} and has {n_tasks} "
            f"now: {why}. Start with the parallelism that it had, or with an empty folder"
        )
    return plan.tasks


def _undivided(spec: ComponentSpec) -> str:
    """Why what a component has saved cannot be divided among another number of tasks; empty: it can."""
    if spec.kind == "spout":
        return "a spout's position belongs to its task"
    if spec.time.key is None:
        return ""
    problem = window_division(spec.time.key, spec.inputs).problem
    return problem and f"its windows cannot be divided among other tasks, because {problem}"


def _by(key: Sequence[str]) -> str:
    return f"by {', '.join(key)}" if key else "by no field of their key"
