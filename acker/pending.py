"""Pending: the messages that a spout task has emitted and that are still open, as a pure machine.

One entry per tree: its message ids by index, and (if they will be needed) the values. Detached messages (ledger.py)
stay in the entry when the others are acked.

1. Every message is settled exactly once: acked or failed. Later verdicts about it are ignored.
2. `count` is the number of open messages; `topology.max.spout.pending` bounds it.
3. A tree whose verdict never arrives (an acker died) fails by its own deadline, a little after the acker's.
4. Trees are in the order of their deadlines: all have the same timeout, and a reset moves a tree to the end. A detached
   message of a complete tree keeps the tree's deadline, counted from the emit; a reset gives it its own.
5. A tree is small. Measured (CPython 3.11, without ids, values and the root, which exist anyway): one message takes 213
   bytes here and 170 in the ledger; 64 messages take 698 and 145, which is 13 bytes a message. A detached message takes
   221 bytes in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ..topology import Failure, MessageId, Row

_SETTLED: Final = object()


class Emission(NamedTuple):
    """What was emitted under a message id, kept for replay and for spouts that need their values."""

    values: Row
    stream: str
    direct: int | None = None


class Settled(NamedTuple):
    """A message with its outcome. `failure` is None if it was acked; `attempts` counts its earlier failures."""

    message_id: MessageId
    failure: Failure | None
    emission: Emission | None
    attempts: int
    emitted_s: float


class Tree:
    """The messages of one tree, by index. `emissions` is parallel to `ids`, or None if they are not needed.

    `indices` are the indices of its messages, if they are not 0, 1, …. Its clock runs from `since_s`: the emit, or the
    last reset.
    """

    __slots__ = ("attempts", "emissions", "emitted_s", "ids", "indices", "open", "since_s")

    def __init__(
        self,
        ids: Sequence[MessageId],
        emissions: Sequence[Emission] | None,
        attempts: int,
        emitted_s: float,
        indices: Sequence[int] | None = None,
    ) -> None:
        self.ids: Sequence[MessageId] = ids if type(ids) is range else tuple(ids)
        self.emissions = emissions
        self.attempts = attempts
        self.emitted_s = self.since_s = emitted_s
        self.indices = indices
        self.open = len(self.ids)

    def open_ids(self) -> Sequence[MessageId]:
        """The message ids that are not settled yet."""
        if self.open == len(self.ids):
            return self.ids
        return [message_id for message_id in self.ids if message_id is not _SETTLED]

    def settled(self, failure: Failure | None = None) -> list[Settled]:
        """The outcomes of all messages that are not settled yet."""
        return [self.settle(i, failure) for i, message_id in enumerate(self.ids) if message_id is not _SETTLED]

    def settle(self, place: int, failure: Failure | None) -> Settled:
        """The outcome of one message."""
        emission = self.emissions[place] if self.emissions is not None else None
        return Settled(self.ids[place], failure, emission, self.attempts, self.emitted_s)

    def place(self, index: int) -> int | None:
        """The position of an open message; None if it is settled."""
        place = index
        if self.indices is not None:
            place = self.indices.index(index) if index in self.indices else -1
        return place if 0 <= place < len(self.ids) and self.ids[place] is not _SETTLED else None

    def part(self, indices: Sequence[int]) -> Tree | None:
        """The open ones of these messages, as a tree of their own; in this tree they are settled."""
        places = {index: place for index in indices if (place := self.place(index)) is not None}
        if not places:
            return None
        emissions = None if self.emissions is None else [self.emissions[place] for place in places.values()]
        ids = [self.ids[place] for place in places.values()]
        part = Tree(ids, emissions, self.attempts, self.emitted_s, tuple(places))
        part.since_s = self.since_s
        left = list(self.ids)
        for place in places.values():
            left[place] = _SETTLED
        self.ids = tuple(left)
        self.open -= len(places)
        return part


Key = int | tuple[int, int]
"""Key of anything with a clock: the root of a tree; or (root, index) of a message with its own clock."""


class Pending:
    """The open trees of one spout task. `timeout_s=None`: no deadline. Times are monotonic seconds."""

    __slots__ = ("_timeout_s", "_trees", "count")

    def __init__(self, timeout_s: float | None) -> None:
        self._trees: dict[Key, Tree] = {}
        self._timeout_s = float("inf") if timeout_s is None else timeout_s
        self.count = 0

    def time_out_after(self, timeout_s: float) -> None:
        """Set another timeout, for open trees too: their order stays the same."""
        self._timeout_s = timeout_s

    def __contains__(self, root: object) -> bool:
        return root in self._trees

    def __len__(self) -> int:
        return len(self._trees)

    def add(
        self, root: int, ids: Sequence[MessageId], emissions: Sequence[Emission] | None, attempts: int, now_s: float
    ) -> None:
        """A tree was emitted: message ids by index; `emissions` parallel to them, or None.

        ValueError for a root that is already pending: its first tree would be lost. (Check `root in pending` first:
        with 64 random bits, two of a million roots are equal once in some 10**7 times.)
        """
        if root in self._trees:
            raise ValueError(f"root {root:#x} is already pending: draw another one")
        self._trees[root] = Tree(ids, emissions, attempts, now_s)
        self.count += len(ids)

    def acked(self, root: int, left: Sequence[int] = ()) -> Tree | None:
        """The tree is complete: every open message of it is acked, except the detached ones in `left`.

        None if there is no such tree (any more).
        """
        tree = self._trees.get(root)
        if tree is None:
            return None
        kept = tree.part(left) if left else None
        if kept is None:
            del self._trees[root]
        else:
            self._trees[root] = kept  # in the same position: its deadline is the same
        self.count -= tree.open
        return tree if tree.open else None

    def message_acked(self, root: int, index: int) -> Tree | None:
        """One detached message is acked; None if it was settled before."""
        return self._take(root, index)

    def failed(self, root: int, index: int, failure: Failure | None) -> Settled | None:
        """One message failed; None if it was settled before."""
        tree = self._take(root, index)
        return None if tree is None else tree.settle(0, failure)

    def expired(self, key: Key, failure: Failure | None) -> list[Settled]:
        """The tree (or a message with its own clock) timed out: every open message of it fails."""
        tree = self._trees.pop(key, None)
        if tree is None:
            return []
        self.count -= tree.open
        return tree.settled(failure)

    def reset(self, root: int, now_s: float, index: int = -1) -> None:
        """Restart the clock of a tree, or of one detached message of it."""
        key: Key = root
        if index < 0:
            tree = self._trees.pop(root, None)
        else:
            key, tree = (root, index), self._take(root, index)
            self.count += tree is not None
        if tree is not None:
            tree.since_s = now_s
            self._trees[key] = tree

    def overdue(self, now_s: float) -> list[Key]:
        """The keys whose own deadline has passed, oldest first: for `expired`."""
        due: list[Key] = []
        for key, tree in self._trees.items():
            if tree.since_s + self._timeout_s > now_s:
                break
            due.append(key)
        return due

    def all(self) -> list[Key]:
        """The keys of everything open, oldest first: for `expired`."""
        return list(self._trees)

    def message_ids(self) -> list[MessageId]:
        """Every open message id, oldest first; for reports."""
        return [message_id for tree in self._trees.values() for message_id in tree.open_ids()]

    def _take(self, root: int, index: int) -> Tree | None:
        """Remove one message from its tree, and return it as a tree of its own."""
        key: Key = (root, index)
        tree = self._trees.get(key)
        if tree is None:
            key = root
            tree = self._trees.get(root)
        part = None if tree is None else tree.part((index,))
        if tree is None or part is None:
            return None
        self.count -= 1
        if not tree.open:
            del self._trees[key]
        return part
