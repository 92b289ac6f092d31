"""Row time: how the tasks that emit to a bolt with windows read the timestamps of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .settings import TimeSettings
from .stream_clock import StreamClock

if TYPE_CHECKING:
    from ..topology import Config
    from .bolts import WindowBolt
    from .rows import Timestamp


class RowTime:
    """The row time of one bolt. `timestamp`: a field, or a function of the Tuple."""

    __slots__ = ("_bolt", "timestamp")

    def __init__(self, bolt: WindowBolt) -> None:
        self._bolt = bolt
        self.timestamp: Timestamp = bolt.timestamp

    def clock(self, config: Config, *, exact: bool) -> StreamClock:
        """A clock for one task that emits to the bolt. `config` is the bolt's; `exact`: see StreamClock."""
        return StreamClock(TimeSettings.of(self._bolt, config), self._bolt.windows, exact=exact)
