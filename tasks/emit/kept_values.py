"""Kept values: the values of a tree's messages, for replay and for spouts that want them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ...acker import Emission
from ...topology import DEFAULT_STREAM


class KeptValues(Sequence[Emission]):
    """The emissions of a tree whose messages all went to the default stream: made from its items on access."""

    __slots__ = ("_bare", "_items")

    def __init__(self, items: Sequence[Any], bare: bool) -> None:
        self._items = items
        self._bare = bare

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Emission: ...
    @overload
    def __getitem__(self, at: slice) -> list[Emission]: ...
    def __getitem__(self, at: int | slice) -> Emission | list[Emission]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        item = self._items[at]
        return Emission((item,) if self._bare else item, DEFAULT_STREAM)
