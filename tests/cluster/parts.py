"""Components that many tests here run: one that never ends, one that waits for ever, one that always fails."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import (
    Spout,
)

from ..tasks.parts import Numbers


async def stuck(tup: Any, collector: Any) -> None:
    await asyncio.Event().wait()


class Endless(Numbers):
    """Goes on for ever."""

    def __init__(self) -> None:
        super().__init__(1 << 60)


class Broken(Spout):
    """Raises in next_tuple, always."""

    outputs = "n"

    def next_tuple(self) -> None:
        raise LookupError("broken")
