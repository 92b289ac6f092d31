"""Late tuples: what is done with them.

1. A tuple is late if a window that it belongs to has fired.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .values import Row
    from .window import Window


class LatePolicy(enum.Enum):
    """What is done with late tuples; they are acked in every case."""

    DROP = "drop"
    STREAM = "stream"
    RETRACT = "retract"


@dataclass(frozen=True, slots=True)
class Late:
    """A late tuple, for the late stream or for `retract(tuple, windows)`: it would have been in these windows."""

    row: Row
    timestamp_ms: int
    windows: tuple[Window, ...]
