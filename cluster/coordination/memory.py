"""MemoryStore: a coordination store in this process, for simulated worlds: its clients share one Tree.

A client that is cut off cannot reach it: its session ends when its time is over, as it would in a real store. One that
is not answered does reach it: what it asks for is done, and it does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING

from .operations import Node, Operation, UnavailableError
from .polled import SESSION_S, PolledCoordination, open_polled
from .tree import Tree

if TYPE_CHECKING:
    from ...runtime import Clock


class MemoryStore:
    """The store. `away`: no client reaches it."""

    def __init__(self, clock: Clock) -> None:
        self.tree = Tree()
        self.away = False
        self._clock = clock
        self._news: dict[MemoryBackend, set[str]] = {}

    def client(self, *, session_s: float = SESSION_S) -> AbstractAsyncContextManager[PolledCoordination]:
        """A client of it."""
        return open_polled(self.backend(), self._clock, "the store in memory", session_s=session_s)

    def backend(self) -> MemoryBackend:
        """What a client uses: it can be cut off."""
        backend = MemoryBackend(self, self._clock)
        self._news[backend] = set()
        return backend

    def expire(self) -> None:
        """End the sessions whose time is over, and tell all clients what has changed."""
        self.tree.expire(self._clock.monotonic())
        if changed := self.tree.take_changed():
            for news in self._news.values():
                news |= changed

    def news(self, backend: MemoryBackend) -> set[str]:
        """What one client has not learned yet."""
        self.expire()
        news, self._news[backend] = self._news[backend], set()
        return news

    def forget(self, backend: MemoryBackend) -> None:
        """This client needs no news any more."""
        self._news.pop(backend, None)


class MemoryBackend:
    """One client's way to the store. `cut_off`: it cannot reach it. `unanswered`: it gets no answers.

    `session`: of its client.
    """

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self.cut_off = self.unanswered = False
        self.session = 0
        self._store = store
        self._clock = clock
        self._session_s = 0.0

    async def begin(self, session_s: float) -> int:
        self._session_s = session_s
        with self._asked() as tree:
            self.session = tree.begin(self._clock.monotonic() + session_s)
        return self.session

    def process_died(self, crashed: bool = True) -> None:
        """The client's process has ended, and so does its session: on one machine that is seen at once."""
        self._store.tree.end(self.session)
        self._store.forget(self)
        self._store.expire()

    def forgotten(self) -> None:
        """The client's process has ended: it needs no news. Its session ends when its time is over."""
        self._store.forget(self)

    async def poll(self, session: int, *, renew: bool) -> Collection[str] | None:
        now_s = self._clock.monotonic()
        with self._asked() as tree:
            tree.renew(session, now_s, now_s + self._session_s if renew else tree.sessions.get(session, 0.0))
            return self._store.news(self)

    async def get(self, path: str) -> Node | None:
        with self._asked() as tree:
            return tree.nodes.get(path)

    async def children(self, path: str) -> list[str]:
        with self._asked() as tree:
            return tree.children(path)

    async def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        with self._asked() as tree:
            return tree.apply(operations, session)

    async def end(self, session: int) -> None:
        with self._asked() as tree:
            tree.end(session)
            self._store.expire()

    async def close(self) -> None:
        self._store.forget(self)

    @contextmanager
    def _asked(self) -> Iterator[Tree]:
        """The tree, for one question."""
        if self.cut_off or self._store.away:
            raise UnavailableError("the store in memory cannot be reached")
        self._store.expire()
        try:
            yield self._store.tree
        finally:
            if self.unanswered:  # it is not even known what was refused
                raise UnavailableError("the store in memory does not answer")
