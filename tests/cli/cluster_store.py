"""The store of a cluster in a file, with records, for tests of commands."""

from __future__ import annotations

from typing import Any

from aiostorm.cluster import Home
from aiostorm.cluster.coordination import Create
from aiostorm.cluster.coordination.sqlite_tree import SqliteTree
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    ERRORS,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ErrorEntry,
    ErrorsRecord,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    pack,
    path_of,
    unpack,
)
from aiostorm.runtime import since_boot_s

FOLDERS = (TOPOLOGIES, ASSIGNMENTS, SUPERVISORS, PARENTS, ERRORS)


class Store:
    """A store in a file, and its records."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._tree = SqliteTree(home.path / "cluster.db")
        self._session = self._tree.begin(since_boot_s(), 3600)

    def make(self) -> None:
        self._apply(*(Create(folder) for folder in FOLDERS))

    def put(self, folder: str, name: str, record: object) -> None:
        self._apply(Create(path_of(folder, name), pack(record)))

    def topology(self, name: str) -> TopologyRecord | None:
        node = self._tree.get(path_of(TOPOLOGIES, name))
        return None if node is None else unpack(TopologyRecord, name, node.value)

    def lead(self) -> None:
        self._apply(Create("/leader"), Create("/leader/holder", b"host:1", ephemeral=True))

    def close(self) -> None:
        self._tree.close()

    def _apply(self, *operations: Any) -> None:
        self._tree.apply(operations, self._session, since_boot_s())


WORDS = TopologyRecord(
    "jobs.words:make",
    ("a", "b"),
    blob="ab" * 32,
    config={"topology.max.spout.pending": 500},
    workers=3,
    submitted_by="ann@here",
    submitted_s=1_700_000_000.0,
)


def filled(store: Store) -> None:
    store.put(TOPOLOGIES, "words", WORDS)
    store.put(ASSIGNMENTS, "words", AssignmentRecord(1, "a", ("a", "a", "b")))
    store.put(SUPERVISORS, "a", SupervisorRecord("host-a", "unix:a", 4, "0.1.0", frozenset({"ssd"})))
    store.put(SUPERVISORS, "b", SupervisorRecord("host-b", "unix:b", 2, "0.1.0"))
    store.put(PARENTS, "words", ParentRecord("a", 1, state="ACTIVE", started_s=1_700_000_005.0))
    store.put(ERRORS, "words", ErrorsRecord((ErrorEntry(1_700_000_007.0, "split[2]", "ValueError: bad\nword"),)))
    store.put(TOPOLOGIES, "large", TopologyRecord("jobs:large", workers=9))
