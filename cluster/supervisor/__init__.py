"""Supervisor: one on each machine of a cluster. It starts and ends the processes that are assigned to it.

wanted.py       what the store says of them
slots.py        which processes are started and ended
failures.py     which processes do not stay alive here
slot_files.py   which processes were started, for the next supervisor
cgroups.py      which limits a process gets in a cgroup; cgroup_tree.py: the folders
disk.py         whether there is enough free space for one more process
launching.py    what a process is started with: its code, its arguments, its log
logs.py         the output of processes, within a quota
old_logs.py     the logs of topologies that have ended
following.py    what it watches in the store
neighbours.py   whether the processes of two supervisors can connect to each other
reading.py      what the store says
running.py      the processes, as slots.py decides
supervisor.py   the daemon
"""

from .cgroup_tree import CgroupError, CgroupFiles, CgroupTree, KernelFiles, found
from .cgroups import Limits, prefix_of
from .disk import KEEP_FREE_BYTES, DiskFullError
from .launching import PARENT_LEASE_S, Code, Launch, Launcher, Listening
from .old_logs import LogRetention
from .running import Isolation, NoIsolation, Process, Processes, SlotNotes, Waiting
from .slot_files import DuplicateSupervisorError, SlotFiles, SlotNote
from .slots import Key
from .supervisor import Launching, Supervisor, SupervisorSeams, UnfitSupervisorError, UnknownTopologyError

__all__ = [
    "KEEP_FREE_BYTES",
    "PARENT_LEASE_S",
    "CgroupError",
    "CgroupFiles",
    "CgroupTree",
    "Code",
    "DiskFullError",
    "DuplicateSupervisorError",
    "Isolation",
    "KernelFiles",
    "Key",
    "Launch",
    "Launcher",
    "Launching",
    "Limits",
    "Listening",
    "LogRetention",
    "NoIsolation",
    "Process",
    "Processes",
    "SlotFiles",
    "SlotNote",
    "SlotNotes",
    "Supervisor",
    "SupervisorSeams",
    "UnfitSupervisorError",
    "UnknownTopologyError",
    "Waiting",
    "found",
    "prefix_of",
]
