"""Reading: the records of a cluster, all or those of one topology."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ..coordination import NoNodeError, UnavailableError, any_changed
from ..nimbus import (
    ASSIGNMENTS,
    ERRORS,
    NIMBUSES,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ErrorEntry,
    ErrorsRecord,
    ParentRecord,
    RecordError,
    SupervisorRecord,
    TopologyRecord,
    name_in,
    path_of,
    unpack,
)
from .errors import NoClusterError
from .views import Records

if TYPE_CHECKING:
    from ..coordination import Coordination

RETRY_S: Final = 0.2

_Record = TypeVar("_Record")
_T = TypeVar("_T")


async def read_all(coordination: Coordination) -> Records:
    """All records. NoClusterError, UnavailableError, SessionLostError."""
    unread: dict[str, str] = {}
    topologies = await _folder(coordination, TOPOLOGIES, TopologyRecord, unread)
    assignments = await _folder(coordination, ASSIGNMENTS, AssignmentRecord, unread)
    supervisors = await _folder(coordination, SUPERVISORS, SupervisorRecord, unread)
    parents = await _folder(coordination, PARENTS, ParentRecord, unread)
    return Records(topologies, assignments, supervisors, parents, unread)


async def read_one(coordination: Coordination, name: str) -> Records:
    """The records of one topology; without any if there is none. RecordError, UnavailableError, SessionLostError."""
    topology = await read_record(coordination, TopologyRecord, TOPOLOGIES, name)
    if topology is None:
        return Records({})
    assignment = await read_record(coordination, AssignmentRecord, ASSIGNMENTS, name)
    parent = await read_record(coordination, ParentRecord, PARENTS, name)
    assignments = {} if assignment is None else {name: assignment}
    return Records({name: topology}, assignments, {}, {} if parent is None else {name: parent})


async def read_errors(coordination: Coordination, name: str) -> tuple[ErrorEntry, ...]:
    """The last errors of a topology, the oldest first."""
    found = await read_record(coordination, ErrorsRecord, ERRORS, name)
    return () if found is None else found.errors


async def read_record(coordination: Coordination, kind: type[_Record], folder: str, name: str) -> _Record | None:
    """A record; None: there is none. RecordError."""
    path = path_of(folder, name)
    node = await coordination.get(path)
    return None if node is None else unpack(kind, path, node.value)


async def read_nimbuses(coordination: Coordination) -> list[str]:
    """What the nimbuses that are there say of themselves, sorted."""
    try:
        paths = [f"{NIMBUSES}/{child}" for child in await coordination.children(NIMBUSES)]
    except NoNodeError:  # of an earlier version
        return []
    nodes = [await coordination.get(path) for path in paths]
    return sorted(node.value.decode(errors="replace") for node in nodes if node is not None)


async def read_until(coordination: Coordination, name: str, look: Callable[[], Awaitable[_T | None]]) -> _T:
    """Look again after each change of a topology, until something is found."""
    watches = [await coordination.watch(path) for path in (TOPOLOGIES, PARENTS, path_of(ERRORS, name))]
    try:
        while True:
            within_s = None
            try:
                found = await look()
                if found is not None:
                    return found
            except UnavailableError:
                within_s = RETRY_S
            await any_changed(watches, within_s)
    finally:
        for watch in watches:
            watch.close()


async def _folder(
    coordination: Coordination, folder: str, kind: type[_Record], unread: dict[str, str]
) -> dict[str, _Record]:
    try:
        children = await coordination.children(folder)
    except NoNodeError as error:
        raise no_cluster(coordination.where) from error
    found: dict[str, _Record] = {}
    for child in children:
        path = f"{folder}/{child}"
        node = await coordination.get(path)
        try:
            if node is not None:  # else it has just been deleted
                found[name_in(child)] = unpack(kind, path, node.value)
        except RecordError as error:
            unread[path] = str(error)
    return found


def no_cluster(where: str) -> NoClusterError:
    """The error where no cluster was started."""
    return NoClusterError(
        f"{where} is no cluster yet: start its daemons, `aiostorm nimbus` and `aiostorm supervisor`; or say where it "
        "is, with --home or --store (AIOSTORM_HOME, AIOSTORM_STORE)"
    )
