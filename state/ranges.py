"""Ranges: which keys a task owns at a parallelism. The same rule as KeyRangeGrouping, so rows find their state.

1. A key belongs to exactly one task of a component, at any parallelism.
2. There are no files by range: a task that starts at another parallelism reads the files of all tasks of its component,
   and keeps its own keys. To hash each key at each snapshot would cost more than the rest of it.

Departs from Flink and JStorm, which write files by key group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..topology import KeyRanges, UnhashableKeyError, stable_hash
from .errors import ForeignError, StateError

if TYPE_CHECKING:
    from ..topology import StateDeclaration
    from .keyed import KeyedState
    from .manifest import ComponentPlan


class KeyOwner:
    """The keys of one task: the one with this index among the `n_tasks` of its component (in the order of task ids)."""

    __slots__ = ("_declared", "_index", "_ranges")

    def __init__(self, declared: KeyedState, index: int, n_tasks: int) -> None:
        if not 0 <= index < n_tasks:
            raise ValueError(f"task {index} of {n_tasks}")
        self._declared = declared
        self._index = index
        self._ranges = KeyRanges.for_tasks(n_tasks)

    @property
    def n_ranges(self) -> int:
        """How many ranges the tasks share."""
        return self._ranges.n_ranges

    def owns(self, key: Any) -> bool:
        """Whether the rows of this key come to this task. StateError for a key that no row can have."""
        try:
            hashed = stable_hash(self._declared.row_of(key))
        except UnhashableKeyError as error:
            raise StateError(f"no task owns the key {key!r:.200}: {error}") from error
        return self._ranges.task_of(hashed % self._ranges.n_ranges) == self._index

    def owned(self, content: Mapping[Any, Any]) -> dict[Any, Any]:
        """The part of a task's saved state that belongs to this task."""
        owns = self.owns
        return {key: value for key, value in content.items() if owns(key)}


def check_restorable(plan: ComponentPlan, declared: StateDeclaration | None, n_tasks: int) -> None:
    """ForeignError if the saved state of a component is not the one that it declares, or not for so many tasks."""
    fields, version = ((), 0) if declared is None else (declared.key_fields, declared.version)
    where = f"component {plan.component!r}"
    if plan.version != version:
        raise ForeignError(
            f"{where}: the snapshot has version {plan.version or 'none'} of its state, and {version or 'none'} is "
            "declared: start with an empty folder, or run the version of the code that wrote it"
        )
    if plan.key != tuple(fields):
        raise ForeignError(
            f"{where}: the snapshot has its state by {', '.join(plan.key) or 'task'}, and the component declares it by "
            f"{', '.join(fields) or 'task'}: increase its version, and start with an empty folder"
        )
    if not fields and len(plan.tasks) != n_tasks:
        raise ForeignError(
            f"{where} has one value per task: it cannot be restored with {n_tasks} tasks instead of {len(plan.tasks)}"
        )


def merge_owned(merged: dict[Any, Any], owned: dict[Any, Any], component: str, task: int) -> None:
    """Add what one task had saved. StateError if another task has saved one of the keys, too."""
    expected = len(merged) + len(owned)
    both = next((key for key in owned if key in merged), None) if merged else None
    merged.update(owned)
    if len(merged) != expected:
        raise StateError(
            f"component {component!r}, task {task}: the key {both!r:.200} is in the state of another task, too. Keys "
            "that are not in the input of a task are other tasks' keys: store them in a bolt grouped by them"
        )
