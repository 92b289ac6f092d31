"""Client: what a program or a command does with a cluster: submit, look, change, kill.

    async with Cluster() as cluster:
        await cluster.submit("words", "jobs:topology", code="src", workers=4)
        await cluster.wait_running("words")

cluster.py    the client
checking.py   the target in a process of its own, before it is submitted
submission.py what a record is made of
audited.py    orders over the store, in the audit log
settings.py   settings as a record holds them
reading.py    the records of a cluster
nimbus.py     the same by a nimbus, which checks a token
views.py      what they say of topologies and nodes
waiting.py    until one runs, or has ended
"""

from .audited import HOME_ROLE, OrderedBy
from .checking import CHECK_S, CheckedTarget
from .cluster import START_S, Cluster
from .errors import CheckError, ClusterError, NoClusterError, NotRunningError
from .nimbus import TOKEN_VARIABLE, AskedNimbus, NimbusOrders, asked_nimbus
from .submission import MAX_TASKS, MAX_WORKERS
from .views import NodeInfo, TopologyInfo

__all__ = [
    "CHECK_S",
    "HOME_ROLE",
    "MAX_TASKS",
    "MAX_WORKERS",
    "START_S",
    "TOKEN_VARIABLE",
    "AskedNimbus",
    "CheckError",
    "CheckedTarget",
    "Cluster",
    "ClusterError",
    "NimbusOrders",
    "NoClusterError",
    "NodeInfo",
    "NotRunningError",
    "OrderedBy",
    "TopologyInfo",
    "asked_nimbus",
]
