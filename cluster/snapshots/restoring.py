"""Restoring: may a component of a topology begin with what it has in a snapshot?

| what it has | at the same parallelism | at another one |
|---|---|---|
| KeyedState, declared as it was | yes | yes: each task takes the keys that it owns |
| ValueState, declared as it was | yes | no |
| a spout's position | yes | no |
| windows | yes | no |
| nothing | yes | yes |

A component that the snapshot does not have begins from the start; one that the topology no longer has is left out, with
a warning in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...state import ComponentPlan, ForeignError, check_restorable
from ...topology import KeyRanges, Windowing

if TYPE_CHECKING:
    from ...state import Manifest
    from ...topology import ComponentSpec, Plan, Topology


def component_plans(topology: Topology, plan: Plan) -> tuple[ComponentPlan, ...]:
    """What a manifest says about the components of a topology."""
    found: list[ComponentPlan] = []
    for spec in topology.components.values():
        tasks, declared = plan.tasks_of[spec.id], spec.state
        if declared is None:
            found.append(ComponentPlan(spec.id, tasks))
            continue
        ranges = KeyRanges.for_tasks(len(tasks)).n_ranges if declared.key_fields else 0
        found.append(ComponentPlan(spec.id, tasks, ranges, tuple(declared.key_fields), declared.version))
    return tuple(found)


def check_component(manifest: Manifest, spec: ComponentSpec, n_tasks: int) -> Sequence[int]:
    """The tasks that the component had in the snapshot; none: it begins from the start. ForeignError if it cannot."""
    plan = manifest.component(spec.id)
    if plan is None:
        return ()
    if spec.state is not None or plan.version:
        check_restorable(plan, spec.state, n_tasks)
    if len(plan.tasks) != n_tasks:
        why = "a spout's position belongs to its task" if spec.kind == "spout" else "its windows belong to its tasks"
        if spec.kind == "spout" or spec.time.windowing is not Windowing.NONE or spec.time.keeps:
            raise ForeignError(
                f"{spec.kind} {spec.id!r} had {len(plan.tasks)} tasks in snapshot {manifest.number} and has {n_tasks} "
                f"now: {why}. Start with the parallelism that it had, or with an empty folder"
            )
    return plan.tasks
