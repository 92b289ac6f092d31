"""Pending: what a spout task has emitted and not yet heard of, as a pure machine.

One entry per tree: the message ids in it, by index, and (where somebody will want them) the values.

1. Every message is settled exactly once: acked or failed. What comes later for it is ignored.
2. `count` is the number of open messages; it is what `topology.max.spout.pending` bounds.
3. A tree whose verdict never comes (an acker died) fails by its own deadline, a little after the acker's.
4. Trees are in the order of their deadlines: the timeout is one for all, a reset moves a tree to the end.
5. A tree is small. Measured (CPython 3.11, beside ids, values and the root, which others hold as well): one message
   takes 205 bytes here and 170 in the ledger; 64 messages take 690 and 145, which is 13 bytes a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_SETTLED: Final = object()


class Emission(NamedTuple):
    """What was emitted under a message id, kept for replay and for spouts that ask for their values."""

    values: tuple[Any, ...]
    stream: str
    direct: int | None = None


class Settled(NamedTuple):
    """A message whose fate is known. `failure` is None when it was acked; `attempts` counts its failures before."""

    message_id: Any
    failure: Any
    emission: Emission | None
    attempts: int
    emitted_s: float


class Tree:
    """The messages of one tree, by index. `emissions` is parallel to `ids`, or None where nobody wants them.

    Its clock runs from `since_s`: the emit, or the last reset.
    """

    __slots__ = ("attempts", "emissions", "emitted_s", "ids", "open", "since_s")

    def __init__(
        self, ids: Sequence[Any], emissions: Sequence[Emission] | None, attempts: int, emitted_s: float
    ) -> None:
        self.ids: Sequence[Any] = ids if type(ids) is range else tuple(ids)
        self.emissions = emissions
        self.attempts = attempts
        self.emitted_s = self.since_s = emitted_s
        self.open = len(self.ids)

    def open_ids(self) -> Sequence[Any]:
        """The message ids that are not settled yet."""
        if self.open == len(self.ids):
            return self.ids
        return [message_id for message_id in self.ids if message_id is not _SETTLED]

    def settled(self, failure: Any = None) -> list[Settled]:
        """The fate of every message that is not settled yet."""
        return [self.settle(i, failure) for i, message_id in enumerate(self.ids) if message_id is not _SETTLED]

    def settle(self, index: int, failure: Any) -> Settled:
        """The fate of one message."""
        emission = self.emissions[index] if self.emissions is not None else None
        return Settled(self.ids[index], failure, emission, self.attempts, self.emitted_s)


class Pending:
    """The open trees of one spout task. `timeout_s=None`: no deadline. Times are monotonic seconds."""

    __slots__ = ("_timeout_s", "_trees", "count")

    def __init__(self, timeout_s: float | None) -> None:
        self._trees: dict[int, Tree] = {}
        self._timeout_s = float("inf") if timeout_s is None else timeout_s
        self.count = 0

    def __contains__(self, root: object) -> bool:
        return root in self._trees

    def __len__(self) -> int:
        return len(self._trees)

    def add(
        self, root: int, ids: Sequence[Any], emissions: Sequence[Emission] | None, attempts: int, now_s: float
    ) -> None:
        """A tree was emitted: message ids by index; `emissions` parallel to them, or None.

        ValueError for a root that is pending: the other tree would be forgotten. (Ask `root in pending` first: of 64
        random bits, two in a million are the same once in some 10**7 times.)
        """
        if root in self._trees:
            raise ValueError(f"root {root:#x} is pending already: draw another")
        self._trees[root] = Tree(ids, emissions, attempts, now_s)
        self.count += len(ids)

    def acked(self, root: int) -> Tree | None:
        """The tree is complete: every open message of it is acked. None if it is not pending (any more)."""
        tree = self._trees.pop(root, None)
        if tree is not None:
            self.count -= tree.open
        return tree

    def failed(self, root: int, index: int, failure: Any) -> Settled | None:
        """One message failed; None if it was settled before."""
        tree = self._trees.get(root)
        if tree is None or not 0 <= index < len(tree.ids) or tree.ids[index] is _SETTLED:
            return None
        settled = tree.settle(index, failure)
        tree.ids = (*tree.ids[:index], _SETTLED, *tree.ids[index + 1 :])
        tree.open -= 1
        self.count -= 1
        if not tree.open:
            del self._trees[root]
        return settled

    def expired(self, root: int, failure: Any) -> list[Settled]:
        """The tree timed out: every open message of it fails."""
        tree = self.acked(root)
        return tree.settled(failure) if tree is not None else []

    def reset(self, root: int, now_s: float) -> None:
        """Restart the clock of a tree."""
        tree = self._trees.pop(root, None)
        if tree is not None:
            tree.since_s = now_s
            self._trees[root] = tree

    def overdue(self, now_s: float) -> list[int]:
        """The roots whose own deadline has passed, oldest first."""
        due: list[int] = []
        for root, tree in self._trees.items():
            if tree.since_s + self._timeout_s > now_s:
                break
            due.append(root)
        return due

    def roots(self) -> list[int]:
        """The roots of all open trees, oldest first."""
        return list(self._trees)

    def message_ids(self) -> list[Any]:
        """Every open message id, oldest first; for reports."""
        return [message_id for tree in self._trees.values() for message_id in tree.open_ids()]
