"""The handle of a sink in the blobs of its task: one value, or (if it is a list) many, packed in slices.

    section HANDLE: (number of the snapshot, place in the list; ONLY: it is one value) → part

A handle belongs to one snapshot. So of the blobs of earlier snapshots nothing of this section counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...state import Chunk, PackedChunk, RowPacker
from .saved import HANDLE

if TYPE_CHECKING:
    from ...topology import TaskSpec

ONLY: Final = -1

_PARTS = 8
"""So many parts are packed between two looks at the clock."""


class HandleCapture:
    """A handle, to be packed. `full`: are the other sections of the task packed in full?"""

    section = HANDLE

    def __init__(self, handle: Any, number: int, task: TaskSpec, *, full: bool) -> None:
        self._parts: list[Any] = handle if type(handle) is list else [handle]
        first = 0 if type(handle) is list else ONLY
        self._keys = [(number, place) for place in range(first, first + len(self._parts))]
        self._packer = RowPacker(task.component, task.task_id, HANDLE)
        self.full = full
        self.size = len(self._parts)

    def slices(self, stopwatch: Callable[[], float]) -> Iterator[PackedChunk]:
        """The chunks. Other code may run between two of them. UnsavableError."""
        for at in range(0, len(self._parts), _PARTS):
            yield from self._packer.chunks(self._keys[at : at + _PARTS], self._parts[at : at + _PARTS])

    def give_back(self) -> None:
        """The snapshot was not saved: the sink has its own `abort`."""


class HandleLoader:
    """Reads the handle of the newest snapshot."""

    def __init__(self) -> None:
        self._number = 0
        self._parts: dict[int, Any] = {}

    def apply(self, chunk: Chunk) -> None:
        """Take a chunk. ValueError if it is none of a handle."""
        for key, part in zip(chunk.keys, chunk.values, strict=True):
            if type(key) is not tuple or len(key) != 2 or any(type(number) is not int for number in key):
                raise ValueError(f"{key!r:.100} is no place in a handle")
            number, place = key
            if number > self._number:
                self._number, self._parts = number, {}
            if number == self._number:
                self._parts[place] = part

    def finish(self) -> tuple[dict[Any, Any], int]:
        """The parts by place, and how many there are."""
        return self._parts, len(self._parts)


def handles_of(sections: Mapping[int, Mapping[Any, Any]]) -> list[Any]:
    """The handle of a loaded task; an empty list: it has none."""
    parts = sections.get(HANDLE)
    if not parts:
        return []
    return [parts[ONLY]] if ONLY in parts else [[parts[place] for place in sorted(parts)]]
