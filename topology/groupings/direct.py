"""Direct: the emitter names the task, so the grouping has no choice. Storm: direct grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import EmitError
from .base import Grouping

if TYPE_CHECKING:
    from ..tuples import Row
    from ..values import Anchor
    from .shares import Share


class DirectGrouping(Grouping):
    """Only the emitter picks, with `emit_direct`.

    A plain emit on a direct stream is refused for every consumer (Storm: only for direct consumers).
    """

    def choose(self, values: Row) -> Sequence[int]:
        """Refused: EmitError."""
        raise self._refusal()

    def split(self, rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
        """Refused: EmitError."""
        raise self._refusal()

    def _refusal(self) -> EmitError:
        return EmitError(
            f"{self.stream.component!r} emitted on its direct stream {self.stream.stream!r} without naming a task; "
            f"use emit_direct(task, values) with a task of context.tasks({self.context.consumer!r})"
        )
