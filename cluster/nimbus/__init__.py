"""Nimbus: what a cluster is to run, and where. It is never in the way of data, and topologies live on without it.

records.py    topologies, supervisors, assignments and parents in the coordination store
capacity.py   what of each supervisor is taken: slots, memory, cores
failing.py    what does not stay alive where it is, and nodes that are left out
pins.py       components whose tasks run only on nodes with certain labels
isolation.py  topologies that have nodes of their own
nodes.py      which nodes a topology may have
free_slots.py the free slots for one topology, the best one first
planning.py   which supervisor runs which processes
joining.py    which topologies are rebalanced by themselves, since a node can take part
shown.py      records without secrets, for those who may look
orders.py     submit, activate, deactivate, kill, rebalance, update: what is wanted
trials.py     which rebalances, and which other code, do not come to run
nimbus.py     the daemon: one of several leads, and writes the assignments
"""

from .capacity import Demand
from .failing import left_out
from .isolation import ISOLATE_KEY, Isolation, isolated_nodes
from .nimbus import Nimbus, make_folders
from .nodes import REASSIGN_S
from .orders import (
    MAX_WAIT_S,
    OrderError,
    confirm,
    rebalance,
    refuse_update,
    replace_code,
    submit,
    take_back,
    update,
    want,
    why_unknown,
)
from .pins import check_pins, merged_pins
from .planning import Decisions, Seen, plan
from .records import (
    ASSIGNMENTS,
    CLUSTER,
    ERRORS,
    NIMBUSES,
    NO_STORE,
    PARENT_PROCESS,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ClusterRecord,
    ErrorEntry,
    ErrorsRecord,
    FailedProcess,
    FormerPlan,
    ParentRecord,
    RecordError,
    RefusedPlan,
    RefusedUpdate,
    Setting,
    SupervisorRecord,
    TopologyRecord,
    Wanted,
    name_in,
    pack,
    path_of,
    pinned_workers,
    unpack,
    worker_names,
)
from .shown import shown_record

__all__ = [
    "ASSIGNMENTS",
    "CLUSTER",
    "ERRORS",
    "ISOLATE_KEY",
    "MAX_WAIT_S",
    "NIMBUSES",
    "NO_STORE",
    "PARENTS",
    "PARENT_PROCESS",
    "REASSIGN_S",
    "SUPERVISORS",
    "TOPOLOGIES",
    "AssignmentRecord",
    "ClusterRecord",
    "Decisions",
    "Demand",
    "ErrorEntry",
    "ErrorsRecord",
    "FailedProcess",
    "FormerPlan",
    "Isolation",
    "Nimbus",
    "OrderError",
    "ParentRecord",
    "RecordError",
    "RefusedPlan",
    "RefusedUpdate",
    "Seen",
    "Setting",
    "SupervisorRecord",
    "TopologyRecord",
    "Wanted",
    "check_pins",
    "confirm",
    "isolated_nodes",
    "left_out",
    "make_folders",
    "merged_pins",
    "name_in",
    "pack",
    "path_of",
    "pinned_workers",
    "plan",
    "rebalance",
    "refuse_update",
    "replace_code",
    "shown_record",
    "submit",
    "take_back",
    "unpack",
    "update",
    "want",
    "why_unknown",
    "worker_names",
]
