"""Row time: the timestamps that a bolt with windows reads in rows, as those follow them that emit to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..topology import Config
from .rows import Timestamp
from .settings import TimeSettings
from .stream_clock import StreamClock

if TYPE_CHECKING:
    from .bolts import WindowBolt


class RowTime:
    """Of one bolt. `timestamp`: a field, or a function of the Tuple."""

    __slots__ = ("_bolt", "timestamp")

    def __init__(self, bolt: WindowBolt) -> None:
        self._bolt = bolt
        self.timestamp: Timestamp = bolt.timestamp

    def clock(self, config: Config, *, exact: bool) -> StreamClock:
        """For one task that emits to it. `config` is the bolt's; `exact`: see StreamClock."""
        windows: Any = self._bolt.windows
        return StreamClock(TimeSettings.of(self._bolt, config), windows, exact=exact)
