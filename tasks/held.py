"""Held: segments with rows that a rich bolt has been given and has neither acked nor failed."""

from __future__ import annotations

from collections.abc import Iterable

from ..topology import Segment

_FIRST_SWEEP = 64


class Held:
    """In order: what an instance loses fails in the order in which it came."""

    def __init__(self) -> None:
        self._segments: dict[Segment, None] = {}
        self._sweep = _FIRST_SWEEP  # so many, and those that are done by now are taken out

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segments: Iterable[Segment]) -> None:
        """They are given."""
        self._segments.update(dict.fromkeys(segments))

    def executed(self, segment: Segment) -> bool:
        """It has been executed. Is somebody waiting for its rows?"""
        waited_for = bool(segment.open) and segment.tracked
        if not waited_for:  # many a bolt never acks untracked ones
            self._segments.pop(segment, None)
        if len(self._segments) > self._sweep:
            self._segments = {held: None for held in self._segments if held.open}
            self._sweep = max(_FIRST_SWEEP, 2 * len(self._segments))
        return waited_for

    def take(self) -> list[Segment]:
        """All that are open; from now on none is held."""
        taken, self._segments = [held for held in self._segments if held.open], {}
        return taken
