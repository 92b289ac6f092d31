"""Rescaling: what the former tasks of a bolt had saved, divided among another number of tasks.

    section STATE    by key: each key to the task that gets its rows now
    section WINDOWS  by key as well (windows.dividing), with their results that are due
    section TASK     of time, what all tasks know from which a task gets keys: the least watermark, the last correction
    section HANDLE   each to one of the tasks, to be committed again

What belongs to a task and cannot be divided is refused before (cluster.snapshots.restoring).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ...state import ForeignError, KeyedState, KeySplitter, StateError
from ...topology import KeyRanges, StreamId, WindowKey, window_division
from ...windows import FieldsHash, KeyHash, StreamClock, WatermarkTracker, WindowDivider, WindowStateError
from ..execute.kept_tuples import packed_row
from .handles import handles_of
from .saved import HANDLE, SENT, STATE, TASK, TIME, WINDOWS
from .window_loading import WRONG

if TYPE_CHECKING:
    from ...topology import ComponentSpec, Fields, Value

STEP: Final = 2_000
"""So many keys are divided between two steps: some milliseconds."""


class Rescaling:
    """A bolt that had `n_former` tasks, and has `n_tasks`. `wanted`: the numbers of those in this process.

    `fields`: of the rows of its inputs. Add what each former task had saved, if it `needs` that; then `take`.
    """

    def __init__(
        self,
        spec: ComponentSpec,
        n_former: int,
        n_tasks: int,
        wanted: Collection[int],
        fields: Mapping[tuple[str, str], Fields],
    ) -> None:
        self._former = KeyRanges.for_tasks(n_former)
        self._n_tasks = n_tasks
        self._states: list[dict[Any, Any]] = [{} for _ in range(n_tasks)]
        self._splitter = KeySplitter(spec.state, n_tasks) if isinstance(spec.state, KeyedState) else None
        self._windows = None if spec.time.key is None else _divider(spec.time.key, spec, n_tasks, wanted, fields)
        self._own: dict[int, list[Mapping[str, Any]]] = {task: [] for task in wanted}
        self._handles: dict[int, list[Any]] = {task: [] for task in wanted}
        self._name = spec.id

    def needs(self, index: int, sections: Collection[int]) -> bool:
        """Whether something of these sections of a former task comes to tasks of this process."""
        if self._splitter is not None or (HANDLE in sections and index % self._n_tasks in self._handles):
            return True
        return any(self._is_source(index, task) for task in self._own)

    def add(self, index: int, sections: Mapping[int, Mapping[Any, Any]]) -> Iterator[None]:
        """Add what former task `index` had saved, in steps. StateError."""
        try:
            if self._splitter is not None:
                content = iter(sections.get(STATE, {}).items())
                while rows := dict(islice(content, STEP)):
                    self._splitter.split(rows, self._states)
                    yield
            if self._windows is not None:
                yield from self._windows.add(dict(sections.get(WINDOWS, {})), self._former, index)
        except (StateError, WindowStateError) as error:
            raise StateError(
                f"component {self._name!r}, its task {index} in the snapshot: what it had cannot be divided among "
                f"{self._n_tasks} tasks: {error}"
            ) from error
        for task, parts in self._own.items():
            if self._is_source(index, task):
                parts.append(sections.get(TASK, {}).get(None, {}))
        if (handles := self._handles.get(index % self._n_tasks)) is not None:
            handles += handles_of(sections)

    def take(self, task: int) -> tuple[dict[int, dict[Any, Any]], tuple[Any, ...]]:
        """The sections of a task, and the handles that it commits again. It is forgotten here. ForeignError."""
        sections: dict[int, dict[Any, Any]] = {}
        if self._splitter is not None:
            sections[STATE], self._states[task] = self._states[task], {}
        if self._windows is not None:
            sections[WINDOWS] = self._windows.take(task)
        try:
            sections[TASK] = {None: least_time(self._own.pop(task))}
        except WRONG as error:
            raise ForeignError(f"component {self._name!r}: its event time cannot be restored: {error}") from error
        return sections, tuple(self._handles.pop(task))

    def _is_source(self, index: int, task: int) -> bool:
        return self._windows is None or self._windows.is_source(self._former, index, task)


def least_time(parts: list[Mapping[str, Any]]) -> dict[str, Value]:
    """What several tasks of a component have saved of time (see BoltTime.save), for a task that takes over from all.

    It has sent nothing yet: for its receivers it is a new task.
    """
    merged: dict[str, Value] = {}
    times = [part[TIME] for part in parts if part.get(TIME)]
    if times and len(times) == len(parts):
        merged[TIME] = {
            **times[0],
            "inputs": WatermarkTracker.least([time["inputs"] for time in times]),
            "passed_on": None,
            **{name: max(time[name] for time in times) for name in ("wall_ms", "revision") if name in times[0]},
        }
    clocks = [part.get(SENT, {}).get("clocks", {}) for part in parts]
    names = [name for name in clocks[0] if all(name in some for some in clocks)] if clocks else []
    if names:
        least = {name: StreamClock.least([some[name] for some in clocks]) for name in names}
        merged[SENT] = {"sent_ms": None, "clocks": least}
    return merged


def _divider(
    key: WindowKey,
    spec: ComponentSpec,
    n_tasks: int,
    wanted: Collection[int],
    fields: Mapping[tuple[str, str], Fields],
) -> WindowDivider:
    division = window_division(key, spec.inputs)
    if not key.of_input:
        return WindowDivider(KeyHash(division.places, single=key.single), n_tasks, wanted)

    def places(source: StreamId) -> tuple[int, ...]:
        return tuple(fields[source.component, source.stream].position(name) for name in division.fields[source])

    by_row = FieldsHash({(source.component, source.stream): places(source) for source in division.fields})
    return WindowDivider(by_row, n_tasks, wanted, packed_row)
