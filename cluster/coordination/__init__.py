"""What a cluster must not forget, and how its daemons find each other: nodes, versions, sessions, leaders.

operations.py    nodes, the operations of a commit, and why one is refused
coordination.py  the interface of a client
leadership.py    one of several daemons leads; a former leader writes nothing
places.py        a store by its URL
tree.py          nodes and sessions in memory: the model of all stores
polled.py        a client of a store that is asked for news
  memory.py      … in this process, for simulated worlds
  sqlite.py      … in a file, for the processes of one machine (sqlite_tree.py)
zookeeper.py     a client of ZooKeeper
watches.py       who waits for what, in one client
"""

from .coordination import Coordination, Status, Watch
from .leadership import HOLDER, LEADER, DeposedError, Term, campaign, leader
from .memory import MemoryStore
from .operations import (
    DELETED,
    MAX_VALUE_BYTES,
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
    RefusedError,
    SessionLostError,
    UnavailableError,
)
from .places import is_there, open_coordination
from .watches import any_changed

__all__ = [
    "DELETED",
    "HOLDER",
    "LEADER",
    "MAX_VALUE_BYTES",
    "BadVersionError",
    "Check",
    "Coordination",
    "CoordinationError",
    "Create",
    "Delete",
    "DeposedError",
    "EphemeralParentError",
    "MemoryStore",
    "NoNodeError",
    "Node",
    "NodeExistsError",
    "NotEmptyError",
    "Operation",
    "Put",
    "RefusedError",
    "SessionLostError",
    "Status",
    "Term",
    "UnavailableError",
    "Watch",
    "any_changed",
    "campaign",
    "is_there",
    "leader",
    "open_coordination",
]
