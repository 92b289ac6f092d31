"""Shares: the rows of a batch for each target, with the marks of these rows.

1. `share_out` and `share_each` make one share a target; its rows keep their order.
2. Marks may be split when the receiver first uses them (`DealtMarks`): many receivers never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from ..tuples import Row

Share = tuple[int, Sequence[Any], Sequence[Any] | None]
"""A target task, its rows (or bare values), and the marks that belong to them (None: untracked)."""


class DealtMarks:
    """The marks of a batch that was split, split only when they are first used.

    A bolt that emits nothing and fails nothing never uses them, and splitting marks costs as much as splitting rows.
    """

    __slots__ = ("_dealt", "_marks", "_n_targets", "_places")

    def __init__(self, marks: Sequence[Any], places: Sequence[int], n_targets: int) -> None:
        self._marks = marks
        self._places = places
        self._n_targets = n_targets
        self._dealt: list[list[Any]] | None = None

    def share(self, place: int) -> Sequence[Any]:
        """The marks of one target's rows, in their order."""
        return _MarksShare(self, place)

    def of(self, place: int) -> list[Any]:
        """The same as a list; splits all marks at the first call."""
        if self._dealt is None:
            dealt: list[list[Any]] = [[] for _ in range(self._n_targets)]
            for mark, at in zip(self._marks, self._places, strict=True):
                dealt[at].append(mark)
            self._dealt = dealt
            self._marks = self._places = ()
        return self._dealt[place]


class _MarksShare(Sequence[Any]):
    """One target's marks, or a part of them: cutting a share that is too heavy for a mailbox does not use the marks."""

    __slots__ = ("_dealt", "_part", "_place")

    def __init__(self, dealt: DealtMarks, place: int, part: slice | None = None) -> None:
        self._dealt = dealt
        self._place = place
        self._part = part

    def _own(self) -> list[Any]:
        marks = self._dealt.of(self._place)
        return marks if self._part is None else marks[self._part]

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice) and self._part is None:
            return _MarksShare(self._dealt, self._place, at)
        return self._own()[at]

    def __len__(self) -> int:
        return len(self._own())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own())

    def __eq__(self, other: object) -> bool:
        return self._own() == (list(other) if isinstance(other, Sequence) else other)

    def __hash__(self) -> int:
        raise TypeError("marks are a sequence that can be compared, not hashed")

    def __repr__(self) -> str:
        return repr(self._own())


def share_out(chosen: Iterable[Sequence[int]], rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
    """Shares from the targets of each row."""
    shares: dict[int, tuple[list[Row], list[Any]]] = {}
    for i, targets in enumerate(chosen):
        for target in targets:
            share = shares.get(target)
            if share is None:
                share = shares[target] = ([], [])
            share[0].append(rows[i])
            if marks is not None:
                share[1].append(marks[i])
    return [(target, share[0], None if marks is None else share[1]) for target, share in shares.items()]


def share_each(chosen: Iterable[int], rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
    """Shares from the one target of each row."""
    shares: dict[int, list[Row]] = {}
    if marks is None:
        for target, row in zip(chosen, rows):  # noqa: B905 - strict costs a tenth here
            if target in shares:
                shares[target].append(row)
            else:
                shares[target] = [row]
        return [(target, share, None) for target, share in shares.items()]
    share_marks: dict[int, list[Any]] = {}
    for target, row, mark in zip(chosen, rows, marks):  # noqa: B905
        if target in shares:
            shares[target].append(row)
            share_marks[target].append(mark)
        else:
            shares[target] = [row]
            share_marks[target] = [mark]
    return [(target, share, share_marks[target]) for target, share in shares.items()]
