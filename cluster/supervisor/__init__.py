"""Supervisor: one on each machine of a cluster. It starts and ends the processes that are assigned to it.

wanted.py       what the store says of them
slots.py        which processes are started and ended
failures.py     which processes do not stay alive here
slot_files.py   which processes were started, for the next supervisor
launching.py    what a process is started with: its code, its arguments, its log
logs.py         the output of processes, within a quota
old_logs.py     the logs of topologies that have ended
following.py    what it watches in the store
neighbours.py   whether the processes of two supervisors can connect to each other
reading.py      what the store says
running.py      the processes, as slots.py decides
supervisor.py   the daemon
"""

from .launching import PARENT_LEASE_S, Code, Launch, Launcher, Listening
from .old_logs import LogRetention
from .running import Process, Processes, SlotNotes, Waiting
from .slot_files import DuplicateSupervisorError, SlotFiles, SlotNote
from .slots import Key
from .supervisor import Launching, Supervisor, SupervisorSeams, UnfitSupervisorError, UnknownTopologyError

__all__ = [
    "PARENT_LEASE_S",
    "Code",
    "DuplicateSupervisorError",
    "Key",
    "Launch",
    "Launcher",
    "Launching",
    "Listening",
    "LogRetention",
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
]
