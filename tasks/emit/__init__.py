"""From emitted rows to segments in the mailboxes of other tasks, and the edge ids that track them.

User code emits into collectors.py, spout_collector.py (whose messages become trees) and threaded_collector.py. Rows
wait in emit buffers until emitter.py seals them at the end of a turn: the grouping of each consumer (out_streams.py)
splits them, each share becomes a segment, and ack_batch.py decides what is sent to the ackers (detached.py: rows that
have left their tree; lineage.py: the messages of a row). outbox.py keeps what the target's mailbox has not taken,
waiting.py and spreading.py rows that any of several targets may take. following.py finds watermarks in emitted rows,
watermarks.py sends them. stamping.py and checking.py are for emitters of some topologies. tracing.py keeps what becomes
of sampled trees.
"""

from .checking import check_rows
from .collectors import BasicBatchCollector, BoltTaskCollector, TaskCollector, WindowCollector
from .detached import Detached, can_detach
from .emitter import EmitBuffer, Emitter
from .lineage import MANY, UNTRACKED, mark_done
from .out_streams import Direct, OutStream, Route, Split
from .outbox import Outbox, Outlet, Outlets
from .spout_collector import SpoutTaskCollector
from .stamping import Stamps
from .threaded_collector import ThreadedSpoutCollector
from .waiting import Group

__all__ = [
    "MANY",
    "UNTRACKED",
    "BasicBatchCollector",
    "BoltTaskCollector",
    "Detached",
    "Direct",
    "EmitBuffer",
    "Emitter",
    "Group",
    "OutStream",
    "Outbox",
    "Outlet",
    "Outlets",
    "Route",
    "Split",
    "SpoutTaskCollector",
    "Stamps",
    "TaskCollector",
    "ThreadedSpoutCollector",
    "WindowCollector",
    "can_detach",
    "check_rows",
    "mark_done",
]
