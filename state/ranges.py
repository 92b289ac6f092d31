"""Ranges: which keys a task owns at a parallelism. The same rule as KeyRangeGrouping, so rows find their state.

1. A key belongs to exactly one task of a component, at any parallelism.
2. There are no files by range: a task that starts at another parallelism reads the files of all tasks of its component,
   and keeps its own keys. To hash each key at each snapshot would cost more than the rest of it.

Departs from Flink and JStorm, which write files by key group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..topology import KeyRanges, UnhashableKeyError, stable_hash, value_hashes
from .errors import ForeignError, StateError

if TYPE_CHECKING:
    from ..topology import StateDeclaration
    from .keyed import KeyedState
    from .manifest import ComponentPlan


class KeySplitter:
    """Divides the keys of a component among its `n_tasks` tasks, which are numbered in the order of their ids."""

    __slots__ = ("_declared", "_owners")

    def __init__(self, declared: KeyedState, n_tasks: int) -> None:
        ranges = KeyRanges.for_tasks(n_tasks)
        self._declared = declared
        self._owners = [ranges.task_of(key_range) for key_range in range(ranges.n_ranges)]

    def index_of(self, key: Any) -> int:
        """The number of the task to which the rows of this key come. StateError for a key that no row can have."""
        try:
            hashed = stable_hash(self._declared.row_of(key))
        except UnhashableKeyError as error:
            raise StateError(f"no task owns the key {key!r:.200}: {error}") from error
        return self._owners[hashed % len(self._owners)]

    def split(self, content: Mapping[Any, Any], parts: Sequence[dict[Any, Any]]) -> None:
        """Add keys with their values to the parts of their tasks. StateError if a key is there already."""
        for (key, value), owner in zip(content.items(), self._owners_of(list(content)), strict=True):
            part = parts[owner]
            if key in part:
                raise StateError(
                    f"the key {key!r:.200} is in the state of two tasks. Keys that are not in the input of a task are "
                    "other tasks' keys: store them in a bolt grouped by them"
                )
            part[key] = value

    def _owners_of(self, keys: list[Any]) -> Iterable[int]:
        """`index_of` each key: hashed together, which takes a third of the time."""
        if len(self._declared.key_fields) == 1:
            try:
                owners, n_ranges = self._owners, len(self._owners)
                return [owners[hashed % n_ranges] for hashed in value_hashes(keys)]
            except UnhashableKeyError:
                pass  # the error names the key
        return map(self.index_of, keys)


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
