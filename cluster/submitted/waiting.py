"""Waiting: for news of the store, the end of a task, or an order to leave."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..coordination import Watch


async def any_of(
    watches: list[Watch], stop: asyncio.Event | None, within_s: float | None, task: asyncio.Task[bool] | None = None
) -> None:
    """Wait until one of them has changed, or the task is done, or the time is over."""
    async with asyncio.TaskGroup() as group:
        own: list[asyncio.Task[Any]] = [group.create_task(watch.changed()) for watch in watches]
        if stop is not None:
            own.append(group.create_task(stop.wait()))
        others = [] if task is None else [task]
        await asyncio.wait([*own, *others], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for one in own:
            one.cancel()
