"""Fields: rows with equal values in some fields go to the same task. Storm: FieldsGrouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tuples.columns import RepeatedAnchor
from .keyed import KeyedGrouping
from .shares import DealtAnchors, Share, share_each

if TYPE_CHECKING:
    from ..tuples import Row
    from ..values import Anchor, Item


class FieldsGrouping(KeyedGrouping[int]):
    """Rows with equal values in these fields go to the same task: `stable_hash(key) % n` over the sorted targets."""

    def _compute(self, hashed: int) -> int:
        """The index of the target in `targets`."""
        return hashed % len(self.targets)

    def _compute_all(self, hashes: list[int]) -> list[int]:
        count = len(self.targets)
        return [hashed % count for hashed in hashes]

    def choose(self, values: Row) -> Sequence[int]:
        """The task of this row's key."""
        return (self.targets[self._lookup_one((values,))],)

    def split(self, rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
        """Shares by key."""
        if len(rows) == 1:
            return [(self.targets[self._lookup_one(rows)], rows, anchors)]
        return self._shares(self._lookup(rows), rows, anchors)

    def split_values(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """The same for rows with a single value."""
        return self._shares(self._lookup_values(rows), rows, anchors)

    def _shares(self, places: list[int], items: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """Rows or values by the index of their target. This is the hottest loop of a word count: measure changes."""
        targets = self.targets
        if len(targets) == 1:  # the keys were still looked up: an invalid key must be an error here too
            return [(targets[0], items, anchors)] if items else []
        if len(items) <= 2 * len(targets):  # a list for each target would cost more than it saves
            return share_each([targets[place] for place in places], items, anchors)
        shares: list[list[Item]] = [[] for _ in targets]
        append = [share.append for share in shares]
        for item, place in zip(items, places):  # noqa: B905 - strict costs a tenth here
            append[place](item)
        if anchors is None:
            return [(targets[i], share, None) for i, share in enumerate(shares) if share]
        if isinstance(anchors, RepeatedAnchor):
            return [(targets[i], share, anchors[: len(share)]) for i, share in enumerate(shares) if share]
        dealt = DealtAnchors(anchors, places, len(targets))
        return [(targets[i], share, dealt.share(i)) for i, share in enumerate(shares) if share]
