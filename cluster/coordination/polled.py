"""PolledCoordination: a client of a store that sends no news, so it is asked for them.

    poll, each POLL_S ─► the session is renewed in time ─► paths that have changed ─► watches
                     └─► UnavailableError: suspended;  SessionLostError: lost, for good

From: the recipes of ZooKeeper's clients, whose states these are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

from .operations import (
    Node,
    Operation,
    SessionLostError,
    UnavailableError,
    checked_operations,
    checked_path,
    parent_of,
)
from .tree import lost
from .watches import NodeWatch, Watches

if TYPE_CHECKING:
    from ...runtime import Clock
    from .coordination import Status

log = logging.getLogger("aiostorm.cluster")

POLL_S: Final = 0.1
"""Seconds between two questions for news."""

SESSION_S: Final = 8.0
"""Seconds after which a session ends that was not renewed. It is renewed in each third of it."""


class Backend(Protocol):
    """What a polled store does. Every method may raise UnavailableError; with a session, SessionLostError."""

    async def begin(self, session_s: float) -> int:
        """A new session, which ends after `session_s` without `renew`."""
        ...

    async def poll(self, session: int, *, renew: bool) -> Collection[str] | None:
        """Paths that have changed since the call before; None: it is not known which. Ends sessions of others."""
        ...

    async def get(self, path: str) -> Node | None:
        """A node."""
        ...

    async def children(self, path: str) -> list[str]:
        """The sorted names of the children. NoNodeError."""
        ...

    async def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        """All or nothing. RefusedError."""
        ...

    async def end(self, session: int) -> None:
        """End the session."""
        ...

    async def close(self) -> None:
        """Release what the backend holds."""
        ...


class PolledCoordination:
    """A Coordination: `open_polled` makes it."""

    def __init__(
        self, backend: Backend, clock: Clock, where: str, session_s: float, session: int, *, silent_s: float = 0.0
    ) -> None:
        self.where = where
        self.silent_s = silent_s
        self._backend = backend
        self._clock = clock
        self._session_s = session_s
        self._session = session
        self._watches = Watches()
        self._closed = False

    @property
    def status(self) -> Status:
        return self._watches.status

    @property
    def session(self) -> int:
        return self._session

    async def get(self, path: str) -> Node | None:
        self._check_session()
        return await self._backend.get(checked_path(path))

    async def children(self, path: str) -> list[str]:
        self._check_session()
        return await self._backend.children(path if path == "/" else checked_path(path))

    async def commit(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        self._check_session()
        try:
            versions = await self._backend.apply(checked_operations(operations), self._session)
        except SessionLostError:
            self._watches.set_status("lost")
            raise
        # What this client has changed itself is news at once. The store is not asked for it: it tells each change once,
        # and what it tells a caller that is cancelled meanwhile would be lost.
        self._watches.note({path for each in operations for path in (each.path, parent_of(each.path))})
        return versions

    async def watch(self, path: str) -> NodeWatch:
        return self._watches.add(path if path == "/" else checked_path(path))

    async def status_other_than(self, status: Status) -> Status:
        return await self._watches.status_other_than(status)

    async def close(self) -> None:
        """End the session, if the store can be reached; else it ends by itself."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(UnavailableError, SessionLostError):
            await self._backend.end(self._session)
        self._watches.set_status("lost")
        await self._backend.close()

    async def poll(self) -> None:
        """Ask for news until the session is lost."""
        renewed_s = self._clock.monotonic()
        while self._watches.status != "lost":
            await self._clock.sleep(POLL_S)
            now_s = self._clock.monotonic()
            renew = now_s - renewed_s >= self._session_s / 3
            if await self._take_news(renew=renew) and renew:
                renewed_s = now_s

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _take_news(self, *, renew: bool) -> bool:
        """Did the store answer?"""
        watches = self._watches
        try:
            changed = await self._backend.poll(self._session, renew=renew)
        except SessionLostError as error:
            if not self._closed:
                log.warning("%s: %s", self.where, error)
            watches.set_status("lost")
            return False
        except UnavailableError as error:
            if watches.status == "connected":
                log.warning("%s: %s", self.where, error)
            watches.set_status("suspended")
            return False
        if watches.status == "suspended":
            log.info("%s can be reached again", self.where)
        watches.set_status("connected")
        watches.note(changed)
        return True

    def _check_session(self) -> None:
        if self._watches.status == "lost":
            raise lost(self._session)


@asynccontextmanager
async def open_polled(
    backend: Backend, clock: Clock, where: str, *, session_s: float = SESSION_S, ends_at_once: bool = True
) -> AsyncIterator[PolledCoordination]:
    """A client with a session of its own, which ends with the block. UnavailableError.

    `ends_at_once`: does a session end with its process, and not only when its time is over?
    """
    if not 4 * POLL_S <= session_s <= 3600:
        await backend.close()
        raise ValueError(f"a session lasts {4 * POLL_S:g} to 3600 s, not {session_s:g}")
    try:
        session = await backend.begin(session_s)
    except BaseException:
        await backend.close()
        raise
    silent_s = 0.0 if ends_at_once else session_s
    client = PolledCoordination(backend, clock, where, session_s, session, silent_s=silent_s)
    async with asyncio.TaskGroup() as group:
        polling = group.create_task(client.poll(), name=f"news of {where}")
        try:
            yield client
        finally:
            polling.cancel()
            await client.close()
