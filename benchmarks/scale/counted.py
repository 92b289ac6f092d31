"""Counted: a client of a store that counts what it asks, for a role: nimbus, supervisor, parent, client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiostorm.cluster.coordination import Check, Coordination, Create, Delete, Node, Operation, Put, Watch

ARM: Final = 2
"""Reads with which a watch of ZooKeeper is set: `exists` and `getChildren` (cluster/coordination/zookeeper.py)."""


@dataclass(slots=True)
class Counts:
    """What was asked. `reads`: nodes and lists of children; `read_bytes`: of the answers; `wakes`: watches that fired.

    `written`: operations in commits, without checks.
    """

    reads: int = 0
    read_bytes: int = 0
    commits: int = 0
    written: int = 0
    written_bytes: int = 0
    wakes: int = 0
    watches: int = 0

    @property
    def zookeeper_reads(self) -> int:
        """With those that set watches again."""
        return self.reads + ARM * (self.wakes + self.watches)


@dataclass(slots=True)
class Book:
    """The counts of all roles, from the last `take` on."""

    roles: dict[str, Counts] = field(default_factory=dict)
    paths: Counter[str] = field(default_factory=Counter)

    def of(self, role: str) -> Counts:
        """Those of a role."""
        return self.roles.setdefault(role, Counts())

    def take(self) -> dict[str, Counts]:
        """What was counted; counting begins anew."""
        found, self.roles = self.roles, {}
        self.paths.clear()
        return found


class Counted:
    """A Coordination."""

    def __init__(self, client: Coordination, book: Book, role: str) -> None:
        self.where = client.where
        self._client = client
        self._book = book
        self._role = role

    @property
    def status(self) -> Any:
        """See Coordination."""
        return self._client.status

    @property
    def silent_s(self) -> float:
        """See Coordination."""
        return self._client.silent_s

    @property
    def session(self) -> int:
        """See Coordination."""
        return self._client.session

    async def get(self, path: str) -> Node | None:
        """A node."""
        node = await self._client.get(path)
        counts = self._book.of(self._role)
        counts.reads += 1
        counts.read_bytes += len(path) + (0 if node is None else len(node.value))
        self._book.paths[path.rpartition("/")[0]] += 1
        return node

    async def children(self, path: str) -> list[str]:
        """The names of the children."""
        names = await self._client.children(path)
        counts = self._book.of(self._role)
        counts.reads += 1
        counts.read_bytes += len(path) + sum(map(len, names))
        self._book.paths[f"{path} (list)"] += 1
        return names

    async def commit(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """All or nothing. One that is refused counts, too."""
        counts = self._book.of(self._role)
        counts.commits += 1
        for operation in operations:
            match operation:
                case Check():
                    pass
                case Delete():
                    counts.written += 1
                    counts.written_bytes += len(operation.path)
                case Create() | Put():
                    counts.written += 1
                    counts.written_bytes += len(operation.path) + len(operation.value)
        return await self._client.commit(operations)

    async def watch(self, path: str) -> CountedWatch:
        """Watch a node."""
        self._book.of(self._role).watches += 1
        return CountedWatch(await self._client.watch(path), self._book, self._role)

    async def status_other_than(self, status: Any) -> Any:
        """See Coordination."""
        return await self._client.status_other_than(status)

    async def close(self) -> None:
        """End the session."""
        await self._client.close()


class CountedWatch:
    """A watch that counts how often it fires."""

    def __init__(self, watch: Watch, book: Book, role: str) -> None:
        self._watch = watch
        self._book = book
        self._role = role

    async def changed(self) -> None:
        """Wait for a change."""
        await self._watch.changed()
        self._book.of(self._role).wakes += 1

    def close(self) -> None:
        """Watch no longer."""
        self._watch.close()
