"""SqliteBackend: a SqliteTree, whose blocking operations are done in one thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from ...runtime import in_thread, since_boot_s
from .operations import Node, Operation, UnavailableError
from .sqlite_tree import SqliteTree

P = ParamSpec("P")
T = TypeVar("T")


class SqliteBackend:
    """A Backend. The file is opened by `begin`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aiostorm-coordination")
        self._tree: SqliteTree | None = None
        self._session_s = 0.0

    async def begin(self, session_s: float) -> int:
        self._session_s = session_s
        return await self._do(self._open, session_s)

    async def poll(self, session: int, *, renew: bool) -> Collection[str] | None:
        return await self._do(self._poll, session, self._session_s if renew else None)

    async def get(self, path: str) -> Node | None:
        return await self._do(self._opened().get, path)

    async def children(self, path: str) -> list[str]:
        return await self._do(self._opened().children, path)

    async def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        return await self._do(self._apply, operations, session)

    async def end(self, session: int) -> None:
        await self._do(self._opened().end, session)

    async def close(self) -> None:
        tree, self._tree = self._tree, None
        if tree is not None:
            await in_thread(tree.close, self._thread)
        self._thread.shutdown(wait=False)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _open(self, session_s: float) -> int:
        self._tree = SqliteTree(self._path)
        return self._tree.begin(since_boot_s(), session_s)

    # The time is read in the thread: what waited for it for long must not renew a session that has ended meanwhile.

    def _poll(self, session: int, renew_s: float | None) -> set[str] | None:
        return self._opened().poll(session, since_boot_s(), renew_s)

    def _apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        return self._opened().apply(operations, session, since_boot_s())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _opened(self) -> SqliteTree:
        if self._tree is None:
            raise UnavailableError(f"{self._path} is closed")
        return self._tree

    async def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it in the thread. A cancelled caller does not interrupt it: calls take effect in their order."""
        return await in_thread(partial(work, *args, **kwargs), self._thread)
