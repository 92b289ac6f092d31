"""What a bolt task has in hand: segments that it has taken from its mailbox, and rows that the bolt has not settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..actors import Mailbox
    from ..topology import Segment
    from .snapshots.bolt_snapshots import BoltSnapshots

_FIRST_SWEEP = 64


class Taken:
    """The segments that a task has taken from its mailbox `box` and not executed.

    `start`: so many rows of the first are executed. `dry`: the task has run out of rows since the last sample.
    `snapshots`: counts what is taken, and handles barriers; None without exactly once.
    """

    __slots__ = ("box", "dry", "segments", "snapshots", "start")

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self.segments: deque[Segment] = deque()
        self.start = 0
        self.dry = False
        self.snapshots: BoltSnapshots | None = None

    @property
    def rows(self) -> int:
        """Rows that are not executed."""
        return sum(len(segment.items) for segment in self.segments) - self.start


class InFlight:
    """Segments with rows that a rich bolt has received and has neither acked nor failed, in their order of arrival.

    When an instance fails, they fail in that order.

    `watch` is called when something is held and no check is planned; its caller then calls `check` at even intervals.
    `untracked`: are untracked rows held, too?
    """

    def __init__(self, watch: Callable[[], None], *, untracked: bool = False) -> None:
        self._untracked = untracked
        self._segments: dict[Segment, int] = {}  # → number of checks before it came: no clock is read for a row
        self._sweep = _FIRST_SWEEP  # above this number, segments that are done are removed
        self._watch = watch
        self._watched = False
        self._checks = 0
        self._news = False

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segments: Iterable[Segment]) -> None:
        """Segments were given to the bolt."""
        self._segments.update(dict.fromkeys(segments, self._checks))
        self._news = True
        if not self._watched:
            self._watched = True
            self._watch()

    def executed(self, segment: Segment) -> bool:
        """A segment has been executed. Are there rows whose ack is awaited?"""
        waited_for = bool(segment.open) and segment.tracked
        if not waited_for and not (self._untracked and segment.open):  # many bolts never ack untracked rows
            self._segments.pop(segment, None)
        if len(self._segments) > self._sweep:
            self._segments = {held: came for held, came in self._segments.items() if held.open}
            self._sweep = max(_FIRST_SWEEP, 2 * len(self._segments))
        return waited_for

    def check(self, looks: int) -> tuple[int, int, bool]:
        """Tracked rows that were open `looks` checks ago already; age of the oldest, in checks; have any come since the
        last?

        When nothing is held any more, `watch` is called for the next segment.
        """
        self._checks += 1
        old = [
            (held, came)
            for held, came in self._segments.items()
            if held.open and held.tracked and came < self._checks - looks
        ]
        news, self._news = self._news, False
        if not any(held.open for held in self._segments):
            self._watched = False
        return sum(held.open for held, _ in old), self._checks - old[0][1] if old else 0, news

    def stop_watching(self) -> None:
        """No check is planned any more, until a segment arrives."""
        self._watched = False

    @property
    def watched(self) -> bool:
        """Is there anything to check?"""
        return self._watched

    @property
    def has_open(self) -> bool:
        """Are there rows that the bolt has neither acked nor failed?"""
        return any(held.open for held in self._segments)

    def take_open(self) -> list[Segment]:
        """All that are open; afterwards none is held."""
        taken, self._segments = [held for held in self._segments if held.open], {}
        return taken
