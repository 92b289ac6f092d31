"""Pending: what a spout task has emitted and not yet heard of, as a pure machine.

One entry per tree: the message ids in it, by index, and (where somebody will want them) the values.

1. Every message is settled exactly once: acked or failed. What comes later for it is ignored.
2. `count` is the number of open messages; it is what `topology.max.spout.pending` bounds.
3. A tree whose verdict never comes (an acker died) fails by its own deadline, a little after the acker's.
"""

from __future__ import annotations

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


class _Tree:
    __slots__ = ("attempts", "deadline_s", "emissions", "emitted_s", "ids", "open")

    def __init__(
        self, ids: list[Any], emissions: list[Emission] | None, attempts: int, emitted_s: float, deadline_s: float
    ) -> None:
        self.ids = ids
        self.emissions = emissions
        self.attempts = attempts
        self.emitted_s = emitted_s
        self.deadline_s = deadline_s
        self.open = len(ids)


class Pending:
    """The open trees of one spout task. `timeout_s=None`: no deadline. Times are monotonic seconds."""

    __slots__ = ("_timeout_s", "_trees", "count")

    def __init__(self, timeout_s: float | None) -> None:
        self._trees: dict[int, _Tree] = {}
        self._timeout_s = float("inf") if timeout_s is None else timeout_s
        self.count = 0

    def __contains__(self, root: object) -> bool:
        return root in self._trees

    def __len__(self) -> int:
        return len(self._trees)

    def add(self, root: int, ids: list[Any], emissions: list[Emission] | None, attempts: int, now_s: float) -> None:
        """A tree was emitted: message ids by index; `emissions` parallel to them, or None."""
        self._trees[root] = _Tree(ids, emissions, attempts, now_s, now_s + self._timeout_s)
        self.count += len(ids)

    def acked(self, root: int) -> list[Settled]:
        """The tree is complete: every open message of it is acked."""
        return self._end(root, None)

    def failed(self, root: int, index: int, failure: Any) -> Settled | None:
        """One message failed; None if it was settled before."""
        tree = self._trees.get(root)
        if tree is None or not 0 <= index < len(tree.ids) or tree.ids[index] is _SETTLED:
            return None
        settled = self._settle(tree, index, failure)
        tree.ids[index] = _SETTLED
        tree.open -= 1
        self.count -= 1
        if not tree.open:
            del self._trees[root]
        return settled

    def expired(self, root: int, failure: Any) -> list[Settled]:
        """The tree timed out: every open message of it fails."""
        return self._end(root, failure)

    def reset(self, root: int, now_s: float) -> None:
        """Restart the clock of a tree."""
        tree = self._trees.pop(root, None)
        if tree is not None:
            tree.deadline_s = now_s + self._timeout_s
            self._trees[root] = tree

    def overdue(self, now_s: float) -> list[int]:
        """The roots whose own deadline has passed, oldest first."""
        due: list[int] = []
        for root, tree in self._trees.items():
            if tree.deadline_s > now_s:
                break
            due.append(root)
        return due

    def message_ids(self) -> list[Any]:
        """Every open message id, oldest first; for reports."""
        return [m for tree in self._trees.values() for m in tree.ids if m is not _SETTLED]

    def _end(self, root: int, failure: Any) -> list[Settled]:
        tree = self._trees.pop(root, None)
        if tree is None:
            return []
        self.count -= tree.open
        return [self._settle(tree, i, failure) for i, m in enumerate(tree.ids) if m is not _SETTLED]

    def _settle(self, tree: _Tree, index: int, failure: Any) -> Settled:
        emission = tree.emissions[index] if tree.emissions is not None else None
        return Settled(tree.ids[index], failure, emission, tree.attempts, tree.emitted_s)
