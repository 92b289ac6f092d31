"""Tree: the nodes and the sessions of a coordination store, in memory. Pure: times are given.

    apply(operations, session) ─► versions, or RefusedError and nothing has changed
    expire(now), end(session)  ─► their ephemeral nodes end
                                └─► `changed`: the paths whose value, existence or children have changed

It is the store of simulated worlds, and the model that the others are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

from .operations import (
    DELETED,
    BadVersionError,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
    SessionLostError,
    checked_operations,
    parent_of,
)


class Tree:
    """The nodes by path, without the root. `sessions`: id → when it expires, in seconds."""

    __slots__ = ("_last_session", "_none_before_s", "changed", "nodes", "sessions")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, float] = {}
        self.changed: set[str] = set()
        self._last_session = 0
        self._none_before_s = float("inf")  # no session expires before: most questions need not look at all of them

    # -- sessions ------------------------------------------------------------------------------------------------------

    def begin(self, expires_s: float) -> int:
        """A new session: its id, which is greater than every one before."""
        self._last_session += 1
        self.sessions[self._last_session] = expires_s
        self._none_before_s = min(self._none_before_s, expires_s)
        return self._last_session

    def renew(self, session: int, now_s: float, expires_s: float) -> None:
        """The client of this session lives. SessionLostError if it came too late."""
        self.expire(now_s)
        if session not in self.sessions:
            raise lost(session)
        self.sessions[session] = expires_s
        self._none_before_s = min(self._none_before_s, expires_s)

    def end(self, session: int) -> None:
        """A session ends, and its ephemeral nodes with it."""
        self.sessions.pop(session, None)
        for path in [path for path, node in self.nodes.items() if node.session == session]:
            del self.nodes[path]
            self._note(path, children=True)

    def expire(self, now_s: float) -> None:
        """End the sessions that were not renewed in time."""
        if now_s < self._none_before_s:
            return
        for session in [session for session, expires_s in self.sessions.items() if expires_s <= now_s]:
            self.end(session)
        self._none_before_s = min(self.sessions.values(), default=float("inf"))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def children(self, path: str) -> list[str]:
        """The sorted names of the children of a node, or of the root `/`. NoNodeError."""
        if path != "/" and path not in self.nodes:
            raise NoNodeError(path)
        prefix = path.rstrip("/") + "/"
        return sorted(p[len(prefix) :] for p in self.nodes if p.startswith(prefix) and "/" not in p[len(prefix) :])

    def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        """Do all of it, or nothing. The version of each node then. RefusedError; SessionLostError; ValueError."""
        operations = checked_operations(operations)
        if session not in self.sessions:
            raise lost(session)
        nodes, changed = self.nodes.copy(), self.changed.copy()
        try:
            return tuple([self._apply(operation, session) for operation in operations])
        except BaseException:
            self.nodes, self.changed = nodes, changed
            raise

    def take_changed(self) -> set[str]:
        """The paths that have changed since the call before."""
        changed, self.changed = self.changed, set()
        return changed

    # -- inside --------------------------------------------------------------------------------------------------------

    def _apply(self, operation: Operation, session: int) -> int:
        path = operation.path
        if isinstance(operation, Create):
            return self._create(operation, session)
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        if operation.version is not None and operation.version != node.version:
            raise BadVersionError(path, operation.version, node.version)
        match operation:
            case Check():
                return node.version
            case Put():
                self.nodes[path] = Node(operation.value, node.version + 1, node.session)
                self._note(path, children=False)
                return node.version + 1
            case Delete():
                if self.children(path):
                    raise NotEmptyError(path)
                del self.nodes[path]
                self._note(path, children=True)
                return DELETED

    def _create(self, operation: Create, session: int) -> int:
        path, above = operation.path, parent_of(operation.path)
        if path in self.nodes:
            raise NodeExistsError(path)
        if above != "/":
            if above not in self.nodes:
                raise NoNodeError(above)
            if self.nodes[above].session is not None:
                raise EphemeralParentError(above)
        self.nodes[path] = Node(operation.value, 0, session if operation.ephemeral else None)
        self._note(path, children=True)
        return 0

    def _note(self, path: str, *, children: bool) -> None:
        self.changed.add(path)
        if children:
            self.changed.add(parent_of(path))


def lost(session: int) -> SessionLostError:
    """The error of a session that has ended."""
    return SessionLostError(f"session {session} has ended: it was not renewed in time, or was closed")
