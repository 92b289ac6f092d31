"""Failures: which processes do not stay alive on this node, for nimbus to start them elsewhere. Pure.

    Failing ─► named in the supervisor's record ─┬─ it stays alive again           ─► not any more
                                                 ├─ another generation, submission ─► not any more
                                                 ╰─ assigned elsewhere             ─► not any more after KEPT_S

1. What was moved away stays named for a while: nimbus does not move it back, and sees on which node many fail.
2. At most MOST are named, the latest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..nimbus import FailedProcess

if TYPE_CHECKING:
    from .slots import Key
    from .wanted import Assigned

KEPT_S: Final = 600.0
MOST: Final = 50
WHY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class _Failed:
    process: FailedProcess
    until_s: float | None = None


class Failures:
    """Those of one supervisor. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._assigned: Mapping[str, Assigned] = {}
        self._failed: dict[Key, _Failed] = {}

    def see(self, assigned: Mapping[str, Assigned], now_s: float) -> None:
        """What is assigned now."""
        self._assigned = assigned
        for key, failed in list(self._failed.items()):
            found = assigned.get(key.topology)
            if found is None or key.process not in found.here:
                if failed.until_s is None:
                    self._failed[key] = replace(failed, until_s=now_s + KEPT_S)
            elif (found.generation, found.submitted_s) != (failed.process.generation, failed.process.submitted_s):
                del self._failed[key]
            else:
                self._failed[key] = replace(failed, until_s=None)

    def failing(self, key: Key, why: str) -> None:
        """A process does not stay alive."""
        found = self._assigned.get(key.topology)
        if found is not None and key.process in found.here:
            process = FailedProcess(key.topology, key.process, found.generation, found.submitted_s, why[:WHY_CHARS])
            self._failed.pop(key, None)  # the latest is the last one
            self._failed[key] = _Failed(process)

    def recovered(self, key: Key) -> None:
        """It stays alive again."""
        self._failed.pop(key, None)

    def named(self, now_s: float) -> tuple[FailedProcess, ...]:
        """Those to be named now."""
        for key, failed in list(self._failed.items()):
            if failed.until_s is not None and now_s >= failed.until_s:
                del self._failed[key]
        return tuple(failed.process for failed in list(self._failed.values())[-MOST:])
