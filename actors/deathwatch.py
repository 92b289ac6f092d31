"""Death watch: who hears of whose end.

1. A watcher hears once of each end it watches, on its control lane, however often it asked; at once if it was too late.
2. Both sides forget: when the watched one ends, when the watcher ends, when it stops watching.
3. Neither side need be an actor: the far end of a ref that leads to another process has a DeathWatch, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .messages import Terminated

if TYPE_CHECKING:
    from .ref import Ref


class Watcher(Protocol):
    """What hears of an end: a mailbox, for an actor."""

    def post(self, item: Any) -> None:
        """A Terminated; never refused."""
        ...


class DeathWatch:
    """One actor's side of it: as watcher and as watched. What it hears goes to its ear."""

    __slots__ = ("_ear", "_ended", "_ref", "_watched", "_watchers")

    def __init__(self, ref: Ref, ear: Watcher) -> None:
        self._ref = ref
        self._ear = ear
        # Sets that keep their order: one hears of an end in the order in which one asked, in every run.
        self._watchers: dict[DeathWatch, None] = {}
        self._watched: dict[DeathWatch, None] = {}
        self._ended: Terminated | None = None

    def watch(self, other: DeathWatch) -> None:
        """Hear of the other's end."""
        if other._ended is not None:
            self._ear.post(other._ended)
        elif self._ended is None:
            other._watchers[self] = None
            self._watched[other] = None

    def unwatch(self, other: DeathWatch) -> None:
        """Stop watching. A message that is in the mailbox already is still received."""
        other._watchers.pop(self, None)
        self._watched.pop(other, None)

    def end(self, error: BaseException | None) -> None:
        """It has ended: tell the watchers, and watch nobody any more."""
        self._ended = Terminated(self._ref, error)
        for watched in list(self._watched):
            self.unwatch(watched)
        for watcher in list(self._watchers):
            watcher.unwatch(self)
            watcher._ear.post(self._ended)
