"""Distinct: the approximate number of different values in bounded memory (HyperLogLog).

1. Equal values count as one in every process: they are hashed as grouping keys are. The row of a value without such a
   hash fails.
2. A state takes a few kilobytes at most (4 KB if `precision` is 12), less while there are few values.
3. Two states are merged without loss. The relative error is about 1.04 / 2 ** (precision / 2): 1.6 % if it is 12.

Needs Apache DataSketches (`pip install "aiostorm[sketches]"`), which is imported when a Distinct is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..topology import stable_hash
from .assigners import whole
from .errors import WindowError
from .ready_made import Of, OfRows

if TYPE_CHECKING:
    from .values import State, Value
    from .window import Window

PRECISION: Final = 12
MOST_PRECISE: Final = 21


class Distinct(OfRows):
    """The approximate number of different values, an int. `precision`: 7 to 21; one more doubles the memory."""

    def __init__(self, of: Of = None, precision: int = PRECISION) -> None:
        super().__init__(of)
        self._precision = whole(precision, "the precision of Distinct", 7)
        if precision > MOST_PRECISE:
            raise WindowError(f"the precision of Distinct is {precision}; give {MOST_PRECISE} or less")
        try:
            import datasketches  # pyright: ignore[reportMissingTypeStubs]
        except ImportError as error:
            raise WindowError(
                f'Distinct needs DataSketches ({error}): install it with pip install "aiostorm[sketches]"'
            ) from error
        library: Any = datasketches  # its names come from a compiled module, and type checkers see none
        self._sketch = library.hll_sketch
        self._union = library.hll_union

    def init_state(self, window: Window) -> State:
        """An empty sketch."""
        return self._sketch(self._precision)

    def execute(self, value: Value, state: State, window: Window) -> None:
        """Add one value."""
        state.update(stable_hash((self._value(value),)))

    def ready_for(self, value: Value) -> None:
        """Raise if the value has no hash."""
        stable_hash((self._value(value),))

    def merge(self, first: State, second: State) -> State:
        """One sketch of both states."""
        union = self._union(self._precision)
        union.update(first)
        union.update(second)
        return union.get_result()

    def pack_state(self, state: State) -> bytes:
        """The sketch in the library's own format."""
        packed: bytes = state.serialize_updatable()
        return packed

    def unpack_state(self, value: bytes) -> State:
        """A sketch in the library's own format."""
        return self._sketch.deserialize(value)

    def purge(self, state: State, window: Window) -> int:
        """The estimate, rounded."""
        estimate: float = state.get_estimate()
        return round(estimate)

    def takes(self, values: Sequence[Value]) -> bool:
        """Always False: rows are added one by one."""
        return False
