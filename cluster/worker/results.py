"""TaskResults: what the `result()` of each task here returned, packed, for a parent that fetches it in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tasks import describe
from ...transport import UnsendableError, pack_value
from ..messages import PIECE_BYTES, RESULT_ITEMS, CommandFailed, FetchResult

if TYPE_CHECKING:
    from ...topology import Result
    from ..local_runtime import LocalRuntime


class TaskResults:
    """Those of the last `gather`."""

    def __init__(self) -> None:
        self._packed: dict[int, bytes] = {}

    async def gather(self, part: LocalRuntime) -> tuple[tuple[int, int], ...] | CommandFailed:
        """Gather and encode the results of the tasks. Returns their sizes."""
        self._packed.clear()
        for task in part.task_set.tasks:
            try:
                value = await part.result_of(task)
            except Exception as error:  # of user code, reported as such
                place = f"{task.task.component}[{task.task.task_id}].result()"
                return CommandFailed("WorkerError", (f"{place} failed: {describe(error)}",))
            if value is None:
                continue
            try:
                self._packed[task.task.task_id] = _pack(value)
            except UnsendableError as error:
                place = f"what {task.task.component}[{task.task.task_id}].result() returns cannot be sent"
                return CommandFailed("UnsendableError", (f"{place}: {error}",))
        return tuple((task, len(value)) for task, value in self._packed.items())

    def fetch(self, order: FetchResult) -> bytes:
        """A piece of a result."""
        return self._packed[order.task][order.offset : order.offset + PIECE_BYTES]


def _pack(value: Result) -> bytes:
    """Encode a result. It is for people, so a Counter may become a dict. UnsendableError."""
    try:
        return pack_value(value, RESULT_ITEMS)
    except UnsendableError:
        return pack_value(_plain(value), RESULT_ITEMS)


def _plain(value: Result) -> Result:
    """The value with plain dict, list, tuple and set for their subclasses."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind(_plain(item) for item in value)
    return value
