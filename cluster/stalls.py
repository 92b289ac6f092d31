"""Stalls: which user code of a running topology has blocked the event loop, and for how long.

1. Each component has its own limit (`topology.stall.report.secs`; 0: never). Each limit has one watching thread,
   usually one in all, however many topologies there are.
2. A topology reports the stalls of its own tasks only, not those of other topologies or of the program.
3. The last `KEPT` stalls are kept, and the last profiles of them. A worker passes these on while its loop is blocked.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType

from ..runtime import Profile, Stall, StallProfile, watch_stalls

log = logging.getLogger("aiostorm.cluster")

KEPT = 200


class StallReports:
    """Watches the running loop from `start` to `stop`. `limits_s`: component → seconds.

    `profiled`: gets profiles of a stall while it lasts, in another thread.
    """

    def __init__(self, topology: str, limits_s: Mapping[str, float], profiled: Callable[[Profile], None]) -> None:
        self._path = f"/{topology}/"
        self._limits_s = limits_s
        self._profiled = profiled
        self._profile = StallProfile()
        self.count = 0
        self._leave: list[Callable[[], None]] = []
        self._last: deque[Stall] = deque(maxlen=KEPT)

    @property
    def last(self) -> list[Stall]:
        """The last stalls, oldest first."""
        return list(self._last)

    def start(self) -> None:
        """Start watching; does nothing in virtual time."""
        for limit_s in sorted({limit_s for limit_s in self._limits_s.values() if limit_s > 0}):
            self._leave.append(watch_stalls(limit_s, partial(self._stalled, limit_s), partial(self._sampled, limit_s)))

    def update(self, limits_s: Mapping[str, float]) -> None:
        """Change the limits, if it was started."""
        watches = bool(self._leave)
        self.stop()
        self._limits_s = limits_s
        if watches:
            self.start()

    def stop(self) -> None:
        """Stop watching."""
        while self._leave:
            self._leave.pop()()

    def _stalled(self, limit_s: float, stall: Stall) -> None:
        """Called in the watching thread."""
        if self._is_ours(limit_s, stall):
            self._last.append(stall)
            self.count += 1
            log.error("%s", stall)

    def _sampled(self, limit_s: float, stall: Stall, frame: FrameType) -> bool:
        """Called in the watching thread."""
        if not self._is_ours(limit_s, stall):
            return False
        profile = self._profile.add(stall, frame)
        if profile is not None:
            self._profiled(profile)
        return True

    def _is_ours(self, limit_s: float, stall: Stall) -> bool:
        component = stall.task.removeprefix(self._path).partition("[")[0]
        return stall.task.startswith(self._path) and self._limits_s.get(component) == limit_s
