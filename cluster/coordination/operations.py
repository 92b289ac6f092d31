"""Operations: what a coordination store holds, how it is changed, and why a change is refused.

    /topologies/words      a node: a value of at most 64 KB and a version, 0 when it is made, one more with each Put
    /leader/holder         an ephemeral node: it ends with the session of the client that made it

    commit([Check("/leader", 3), Put("/assignments/words", …, version=7)])      all of it happens, or nothing

From: ZooKeeper's data model and its `multi`. There are no sequential nodes: nothing here needs them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...runtime import AiostormError

MAX_VALUE_BYTES: Final = 65_536
"""Of a node. ZooKeeper's own limit is 1 MiB for a whole message."""

MAX_OPERATIONS: Final = 1_000
"""In one commit."""

MAX_DEPTH: Final = 8
_NAME: Final = re.compile(r"[A-Za-z0-9_.~%@:-]{1,200}")


class CoordinationError(AiostormError):
    """The coordination store did not do what was asked."""


class UnavailableError(CoordinationError):
    """The store cannot be reached now. Whether a commit has happened is not known."""


class SessionLostError(CoordinationError):
    """The session of this client has ended, and its ephemeral nodes with it. A new client is needed."""


class RefusedError(CoordinationError):
    """A commit has not happened: the store is not as it says. `path`: the node."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(text)
        self.path = path


class NoNodeError(RefusedError):
    """There is no such node, or no parent for a new one."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"there is no node {path}")


class NodeExistsError(RefusedError):
    """There is such a node already."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"there is a node {path} already")


class BadVersionError(RefusedError):
    """The node was changed since."""

    def __init__(self, path: str, wanted: int, found: int | None = None) -> None:
        has = "another version" if found is None else f"version {found}"
        super().__init__(path, f"node {path} has {has}, and not version {wanted}")


class NotEmptyError(RefusedError):
    """The node has children."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"node {path} has children: delete them first")


class EphemeralParentError(RefusedError):
    """An ephemeral node has no children."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"node {path} is ephemeral, and cannot have children")


@dataclass(frozen=True, slots=True)
class Node:
    """A node at one moment. `session`: of an ephemeral one; None: it is not."""

    value: bytes
    version: int
    session: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The node has this version: else nothing of the commit happens."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """A new node, whose parent is there. `ephemeral`: it ends with the session."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Another value for a node. `version`: the one that it must have; None: any."""

    path: str
    value: bytes
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """The node ends. It has no children. `version`: the one that it must have; None: any."""

    path: str
    version: int | None = None


Operation = Check | Create | Put | Delete

DELETED: Final = -1
"""The version after a Delete."""


def parent_of(path: str) -> str:
    """The path of its parent; of `/a` it is `/`."""
    return path.rpartition("/")[0] or "/"


def checked_path(path: str) -> str:
    """The path of a node, which is not the root. ValueError."""
    names = path.split("/")[1:] if path.startswith("/") else []
    if not 1 <= len(names) <= MAX_DEPTH or not all(map(_NAME.fullmatch, names)) or {".", ".."} & set(names):
        raise ValueError(
            f"a path has 1 to {MAX_DEPTH} names of 1 to 200 characters A-Z a-z 0-9 _ . ~ % @ : -, each after a /: "
            f"not {path!r:.300}"
        )
    return path


def checked_operations(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations, if all are within the limits. ValueError."""
    if not 1 <= len(operations) <= MAX_OPERATIONS:
        raise ValueError(f"a commit has 1 to {MAX_OPERATIONS} operations, not {len(operations)}")
    for operation in operations:
        checked_path(operation.path)
        if isinstance(operation, Create | Put) and len(operation.value) > MAX_VALUE_BYTES:
            raise ValueError(
                f"the value of {operation.path} has {len(operation.value):,} bytes, and may have {MAX_VALUE_BYTES:,}: "
                "store large things as blobs, and their names here"
            )
    return tuple(operations)
