"""What is saved of a task, by section of its blobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

STATE: Final = 0
"""The state that the component declares: by key, or under None."""

TASK: Final = 1
"""One value, under None: a dict with what the task itself saves (position, watermarks, …)."""

HANDLE: Final = 2
"""The handle of a sink (see handles.py)."""

WINDOWS: Final = 3
"""The tables of windows (see windows.dumps)."""

TIME: Final = "time"
SENT: Final = "sent"
"""In the section TASK: what a task knows of time, and the watermarks that it sent (see bolt_time.py)."""


@dataclass(frozen=True, slots=True)
class RestoredTask:
    """What a task begins with. `number`: of the snapshot; `sections`: see above.

    `handles`: of sinks, for this task to commit again: its own, and those of tasks that do not exist any more.
    """

    number: int
    sections: Mapping[int, dict[Any, Any]]
    handles: tuple[Any, ...] = ()
