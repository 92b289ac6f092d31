"""From emitted rows to segments in the mailboxes of other tasks, and the edge ids that track them.

collectors.py, spout_collector.py and threaded_collector.py are what user code emits into. Rows wait in emit_buffer.py
until emitter.py seals them at the end of a turn: the grouping splits them, each share becomes a segment, and
ack_batch.py says what the ackers get (detached.py: rows that have left their tree; lineage.py: which messages a row
comes of; kept_values.py: what a replay needs). outbox.py holds what the target's mailbox has not taken, waiting.py and
spreading.py rows that any of several targets may take, portions.py how many rows a turn may send. stamping.py and
checking.py are emitters that do more.
"""

from .checking import emitter_class
from .collectors import BasicBatchCollector, BasicTaskCollector, BoltTaskCollector, TaskCollector, WindowCollector
from .detached import Detached, can_detach
from .emit_buffer import MANY, UNTRACKED, Direct, EmitBuffer, OutStream, Route, Split
from .emitter import Emitter
from .lineage import emit_buffer_of, settle
from .outbox import Outbox, Outlet, Outlets
from .portions import Portions
from .spout_collector import SpoutTaskCollector
from .stamping import StampingEmitter
from .threaded_collector import ThreadedSpoutCollector
from .waiting import Group

__all__ = [
    "MANY",
    "UNTRACKED",
    "BasicBatchCollector",
    "BasicTaskCollector",
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
    "Portions",
    "Route",
    "Split",
    "SpoutTaskCollector",
    "StampingEmitter",
    "TaskCollector",
    "ThreadedSpoutCollector",
    "WindowCollector",
    "can_detach",
    "emit_buffer_of",
    "emitter_class",
    "settle",
]
