"""Shares: the rows of a batch for each target, with the anchors of these rows.

1. `share_out`, `share_each` and `share_slices` make one share a target; its rows keep their order.
2. Anchors may be split when the receiver first uses them (`DealtAnchors`): many receivers never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, cast, overload

from ..values import Anchor, Item

if TYPE_CHECKING:
    from ..tuples import Row

T = TypeVar("T")

Share = tuple[int, Sequence[Item], Sequence[Anchor] | None]
"""A target task, its rows (or bare values), and the anchors that belong to them (None: untracked)."""


class DealtAnchors:
    """The anchors of a batch that was split, split only when they are first used.

    A bolt that emits nothing and fails nothing never uses them, and splitting anchors costs as much as splitting rows.
    """

    __slots__ = ("_anchors", "_dealt", "_n_targets", "_places")

    def __init__(self, anchors: Sequence[Anchor], places: Sequence[int], n_targets: int) -> None:
        self._anchors = anchors
        self._places = places
        self._n_targets = n_targets
        self._dealt: list[list[Anchor]] | None = None

    def share(self, place: int) -> Sequence[Anchor]:
        """The anchors of one target's rows, in their order."""
        return _SharedAnchors(self, place)

    def of(self, place: int) -> list[Anchor]:
        """The same as a list; splits all anchors at the first call."""
        if self._dealt is None:
            dealt: list[list[Anchor]] = [[] for _ in range(self._n_targets)]
            for anchor, at in zip(self._anchors, self._places, strict=True):
                dealt[at].append(anchor)
            self._dealt = dealt
            self._anchors = self._places = ()
        return self._dealt[place]


class _SharedAnchors(Sequence[Anchor]):
    """One target's anchors, or a part of them: cutting a share that is too heavy for a mailbox does not use them."""

    __slots__ = ("_dealt", "_part", "_place")

    def __init__(self, dealt: DealtAnchors, place: int, part: slice | None = None) -> None:
        self._dealt = dealt
        self._place = place
        self._part = part

    def _own(self) -> list[Anchor]:
        anchors = self._dealt.of(self._place)
        return anchors if self._part is None else anchors[self._part]

    @overload
    def __getitem__(self, at: int) -> Anchor: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Anchor]: ...
    def __getitem__(self, at: int | slice) -> Anchor | Sequence[Anchor]:
        if isinstance(at, slice) and self._part is None:
            return _SharedAnchors(self._dealt, self._place, at)
        return self._own()[at]

    def __len__(self) -> int:
        return len(self._own())

    def __iter__(self) -> Iterator[Anchor]:
        return iter(self._own())

    def __eq__(self, other: object) -> bool:
        return self._own() == (list(cast("Iterable[Anchor]", other)) if isinstance(other, Sequence) else other)

    def __hash__(self) -> int:
        raise TypeError("anchors are a sequence that can be compared, not hashed")

    def __repr__(self) -> str:
        return repr(self._own())


def share_out(chosen: Iterable[Sequence[int]], rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
    """Shares from the targets of each row."""
    shares: dict[int, tuple[list[Row], list[Anchor]]] = {}
    for i, targets in enumerate(chosen):
        for target in targets:
            share = shares.get(target)
            if share is None:
                share = shares[target] = ([], [])
            share[0].append(rows[i])
            if anchors is not None:
                share[1].append(anchors[i])
    return [(target, share[0], None if anchors is None else share[1]) for target, share in shares.items()]


def share_each(chosen: Iterable[int], rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
    """Shares from the one target of each row."""
    shares: dict[int, list[Row]] = {}
    if anchors is None:
        for target, row in zip(chosen, rows):  # noqa: B905 - strict costs a tenth here
            if target in shares:
                shares[target].append(row)
            else:
                shares[target] = [row]
        return [(target, share, None) for target, share in shares.items()]
    share_anchors: dict[int, list[Anchor]] = {}
    for target, row, anchor in zip(chosen, rows, anchors):  # noqa: B905
        if target in shares:
            shares[target].append(row)
            share_anchors[target].append(anchor)
        else:
            shares[target] = [row]
            share_anchors[target] = [anchor]
    return [(target, share, share_anchors[target]) for target, share in shares.items()]


def share_slices(slices: dict[int, list[slice]], rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
    """Shares from the slices of the rows that each target gets."""
    return [
        (target, _joined(rows, some), None if anchors is None else _joined(anchors, some))
        for target, some in slices.items()
    ]


def _joined(items: Sequence[T], slices: Sequence[slice]) -> Sequence[T]:
    if len(slices) == 1:
        return items[slices[0]]
    return [item for some in slices for item in items[some]]
