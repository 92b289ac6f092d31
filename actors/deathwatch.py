"""Death watch: a watcher is notified when a watched actor ends.

1. A watcher is notified once of each end, on its control lane, however often it called `watch`; at once if the watched
   actor has already ended.
2. Both sides drop the entry when the watched actor ends, when the watcher ends, and on `unwatch`.
3. Neither side needs to be an actor: a ref to an actor of another process has a DeathWatch, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .messages import Terminated

if TYPE_CHECKING:
    from .ref import Ref


class Watcher(Protocol):
    """Receives the notification: for an actor, its mailbox."""

    def post(self, item: Terminated) -> None:
        """Put a Terminated message into the mailbox; never refused."""
        ...


class DeathWatch:
    """One actor as watcher and as watched. Its notifications go to `mailbox`."""

    __slots__ = ("_ended", "_mailbox", "_ref", "_watched", "_watchers")

    def __init__(self, ref: Ref, mailbox: Watcher) -> None:
        self._ref = ref
        self._mailbox = mailbox
        # Dicts as ordered sets: watchers are notified in the order in which they called `watch`, the same in every run.
        self._watchers: dict[DeathWatch, None] = {}
        self._watched: dict[DeathWatch, None] = {}
        self._ended: Terminated | None = None

    def watch(self, other: DeathWatch) -> None:
        """Be notified when the other actor ends."""
        if other._ended is not None:
            self._mailbox.post(other._ended)
        elif self._ended is None:
            other._watchers[self] = None
            self._watched[other] = None

    def unwatch(self, other: DeathWatch) -> None:
        """Stop watching. A message that is already in the mailbox is still received."""
        other._watchers.pop(self, None)
        self._watched.pop(other, None)

    def end(self, error: BaseException | None) -> None:
        """This actor has ended: notify its watchers, and stop watching others."""
        self._ended = Terminated(self._ref, error)
        for watched in list(self._watched):
            self.unwatch(watched)
        for watcher in list(self._watchers):
            watcher.unwatch(self)
            watcher._mailbox.post(self._ended)
