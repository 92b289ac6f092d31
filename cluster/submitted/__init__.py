"""Submitted topologies: the program of the process that runs one for a cluster, its parent.

order.py         what the store wants of this process: run, pause, kill, or leave it to another one
registration.py  its record in the store, by which others know what runs, and the last errors of the topology
place.py         where a parent runs, and what is around it
findings.py      what it has found, for its record: errors, and workers that it has given up
updates.py       settings that are changed while it runs
trial.py         a plan that does not run is taken back
waiting.py       for news, the end of a task, or an order to leave
parent.py        the program, which supervisors start as `aiostorm parent`
"""

from .order import Order, order_for
from .parent import BROKEN, LEFT, SubmittedTopology
from .place import MakeCluster, ParentPlace, ParentProcess

__all__ = [
    "BROKEN",
    "LEFT",
    "MakeCluster",
    "Order",
    "ParentPlace",
    "ParentProcess",
    "SubmittedTopology",
    "order_for",
]
