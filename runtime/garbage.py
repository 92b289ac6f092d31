"""The garbage collector of the process, where large objects are made at once.

a list of 250,000 values is made ─► the next collection of young objects follows each value, 20 ms
                                 ─► age_objects(): it counts as old, and no collection of young objects looks at it
"""

from __future__ import annotations

import gc
from typing import Final

FEW: Final = 2_000
"""Python 3.12 freezes its own immortal objects, some hundreds. A server freezes all that it has loaded: thousands."""


def age_objects() -> None:
    """Count all objects as old for the garbage collector, without looking at them: microseconds.

    Garbage among them that is part of a cycle is found by the next full collection. Does nothing if the process has
    frozen objects (`gc.freeze`, as servers do before they fork): they would not be frozen any more.
    """
    if gc.get_freeze_count() < FEW:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
