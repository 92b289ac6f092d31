"""Coordination: the store that holds what a cluster must not forget, and through which its daemons find each other.

1. Nodes, versions and commits: see operations.py. A client has one session. It is renewed by itself; while the store
   cannot be reached the client is *suspended*, and when its session has ended, *lost*. Suspended is not lost: nothing
   was decided then, and perhaps no other client has taken over.
2. A watch says *that* something may have changed, not what: read again. It never misses a change, but may name one that
   is none, or one where there were several.
3. Who writes on behalf of a role adds a Check of the node whose version is its term: a former holder of the role, which
   does not know it yet, can write nothing (leadership.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from .operations import Node, Operation

Status = Literal["connected", "suspended", "lost"]


class Watch(Protocol):
    """The changes of one node: of its value, its existence, and which children it has."""

    async def changed(self) -> None:
        """Wait for a change since the call before, or since the watch was made. Also when `status` has changed."""
        ...

    def close(self) -> None:
        """Watch no longer."""
        ...


class Coordination(Protocol):
    """One client of a coordination store. `where`: the store, for errors and logs.

    `silent_s`: how long a client had been silent when its session has ended by itself; 0: perhaps not at all.
    """

    where: str
    silent_s: float

    @property
    def status(self) -> Status:
        """Is the session there, as far as this client knows?"""
        ...

    @property
    def session(self) -> int:
        """The session, as `Node.session` of its ephemeral nodes names it; 0: there was none yet."""
        ...

    async def get(self, path: str) -> Node | None:
        """A node; None: there is none. UnavailableError, SessionLostError."""
        ...

    async def children(self, path: str) -> list[str]:
        """The sorted names of a node's children. NoNodeError, UnavailableError, SessionLostError."""
        ...

    async def commit(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """Do all of it, or nothing. The version of each node then.

        RefusedError: nothing has happened. UnavailableError: it is not known. SessionLostError; ValueError.
        """
        ...

    async def watch(self, path: str) -> Watch:
        """Watch a node, which need not be there, or the root `/`."""
        ...

    async def status_other_than(self, status: Status) -> Status:
        """Wait until the status is another one."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes end at once."""
        ...
