"""InFlight: segments with rows that a rich bolt has been given and has neither acked nor failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..topology import Segment

_FIRST_SWEEP = 64


class InFlight:
    """In order: what an instance loses fails in the order in which it came.

    `watch` is called when something is held and nobody looks; who looks, calls `look` from time to time.
    """

    def __init__(self, watch: Callable[[], None]) -> None:
        self._segments: dict[Segment, int] = {}  # → after how many looks it came: no clock is read for a row
        self._sweep = _FIRST_SWEEP  # so many, and those that are done by now are taken out
        self._watch = watch
        self._watched = False
        self._looks = 0
        self._adds = 0

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segments: Iterable[Segment]) -> None:
        """They are given."""
        self._segments.update(dict.fromkeys(segments, self._looks))
        self._adds += 1
        if not self._watched:
            self._watched = True
            self._watch()

    def executed(self, segment: Segment) -> bool:
        """It has been executed. Is somebody waiting for its rows?"""
        waited_for = bool(segment.open) and segment.tracked
        if not waited_for:  # many a bolt never acks untracked ones
            self._segments.pop(segment, None)
        if len(self._segments) > self._sweep:
            self._segments = {held: came for held, came in self._segments.items() if held.open}
            self._sweep = max(_FIRST_SWEEP, 2 * len(self._segments))
        return waited_for

    def look(self, looks: int) -> tuple[int, int, bool]:
        """Tracked rows that are open and were so `looks` looks ago; how many looks ago the oldest of them came; news?

        Called at even distances. When nothing is held any more, `watch` is called for the next.
        """
        self._looks += 1
        old = [
            (held, came)
            for held, came in self._segments.items()
            if held.open and held.tracked and came < self._looks - looks
        ]
        news, self._adds = self._adds > 0, 0
        if not any(held.open for held in self._segments):
            self._watched = False
        return sum(held.open for held, _ in old), self._looks - old[0][1] if old else 0, news

    def rest(self) -> None:
        """Nobody looks any more, until something comes."""
        self._watched = False

    @property
    def watched(self) -> bool:
        """Is there anything to look at?"""
        return self._watched

    def take(self) -> list[Segment]:
        """All that are open; from now on none is held."""
        taken, self._segments = [held for held in self._segments if held.open], {}
        return taken
