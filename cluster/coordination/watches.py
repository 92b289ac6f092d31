"""Watches: who waits for changes of which nodes, and for which status, in one client of a coordination store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..changes import Changes

if TYPE_CHECKING:
    from .coordination import Status, Watch


class NodeWatch:
    """The changes of one node. A change is remembered until `changed` returns."""

    __slots__ = ("_event", "_watches", "path")

    def __init__(self, watches: Watches, path: str) -> None:
        self.path = path
        self._watches = watches
        self._event = asyncio.Event()

    async def changed(self) -> None:
        """Wait for a change since the call before, or since the watch was made."""
        await self._event.wait()
        self._event.clear()

    def note(self) -> None:
        """Something may have changed."""
        self._event.set()

    def close(self) -> None:
        """Watch no longer."""
        self._watches.remove(self)


class Watches:
    """The watches of one client, and its status."""

    def __init__(self) -> None:
        self.status: Status = "connected"
        self._status_changes = Changes()
        self._watches: dict[str, dict[NodeWatch, None]] = {}

    @property
    def paths(self) -> Collection[str]:
        """The nodes that are watched."""
        return self._watches.keys()

    def add(self, path: str) -> NodeWatch:
        """Watch a node."""
        watch = NodeWatch(self, path)
        self._watches.setdefault(path, {})[watch] = None
        return watch

    def remove(self, watch: NodeWatch) -> None:
        """Watch it no longer."""
        of_path = self._watches.get(watch.path, {})
        of_path.pop(watch, None)
        if not of_path:
            self._watches.pop(watch.path, None)

    def note(self, paths: Collection[str] | None) -> None:
        """These nodes may have changed; None: any."""
        for path in list(self._watches) if paths is None else paths:
            for watch in self._watches.get(path, ()):
                watch.note()

    def set_status(self, status: Status) -> None:
        """The client is connected, suspended or lost: all that wait learn it."""
        if status == self.status or self.status == "lost":
            return
        self.status = status
        self._status_changes.notify()
        self.note(None)

    async def status_other_than(self, status: Status) -> Status:
        """Wait until the status is another one."""
        while self.status == status:
            await self._status_changes.wait()
        return self.status


async def any_changed(watches: Sequence[Watch], within_s: float | None = None) -> None:
    """Wait until one of them has changed, or the time is over."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.changed()) for watch in watches]
        await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
