"""Local or shuffle: a shuffle among the tasks of the emitter's own worker. Storm: LocalOrShuffleGrouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .shuffle import ShuffleGrouping

if TYPE_CHECKING:
    from ..streams import StreamId
    from .base import GroupingContext


class LocalOrShuffleGrouping(ShuffleGrouping):
    """Shuffle among the targets in the emitter's own worker; among all if there are none."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Keep the local targets if there are any."""
        super().prepare(context, stream, [target for target in targets if target in context.local] or targets)
