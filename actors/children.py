"""Children: the actors that one actor has started and that have not ended, oldest first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cell import Cell


class Children:
    """The children of one actor, by name. A name is free again after its actor has ended."""

    __slots__ = ("_cells", "_numbered")

    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(tuple(self._cells.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._cells

    @property
    def youngest(self) -> Cell:
        """The child that was started last. There must be one."""
        return next(reversed(self._cells.values()))

    def add(self, name: str, child: Cell) -> None:
        """A child is started."""
        self._cells[name] = child

    def remove(self, name: str) -> None:
        """A child has ended."""
        self._cells.pop(name, None)

    def free_name(self, kind: str) -> str:
        """A name that no child has: "kind-1", "kind-2" and so on."""
        while True:
            self._numbered += 1
            name = f"{kind}-{self._numbered}"
            if name not in self._cells:
                return name

    async def stop(self) -> None:
        """Stop them, youngest first, and wait until they have ended."""
        while self._cells:
            child = self.youngest
            child.stop()
            await asyncio.shield(child.termination.ended)
