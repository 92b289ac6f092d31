"""Windows: which rows belong together, when a window is complete, and its result. Pure; the shells are in tasks.

rows ─ timestamps ─ assigners ─► slices ─ aggregates ─► states ─┐
input tasks ─ generators ─► watermarks ─ policy ────────────────┴─► fired: window, key, result
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .aggregates import Aggregate
from .assigners import Counts, Mixed, Session, Sliding, Time, Tumbling
from .bolts import BufferedWindowBolt, WindowBolt, WindowedBolt, key_names
from .buffered import BufferedCounts, BufferedWindows
from .buffered_sessions import BufferedSessions
from .building import buffered_windows, count_windows, time_windows
from .combined import Combined
from .count_windows import CountWindows
from .distinct import Distinct
from .dividing import WindowDivider
from .dumps import apply_delta
from .early import Each, EarlyWindows, Every
from .errors import (
    JoinError,
    StatePackError,
    TimestampError,
    WindowError,
    WindowKeyError,
    WindowLimitError,
    WindowStateError,
)
from .firing import readable_row
from .frozen import Dump, Frozen, TableRows
from .generators import ByFunction, Generator, Periodic, Punctuated
from .kept_rows import WindowRows
from .late import Late, LatePolicy
from .machine import BufferedMachine, IncrementalMachine, Machine
from .mixed_windows import MsEachRows, RowsEachMs
from .packable import check_packable
from .plain_windows import PlainWindows
from .problems import LATE_FIELDS
from .ready_made import Collect, Count, Fold, Max, Mean, Min, Of, Reduce, Sum, TopK
from .row_hash import FieldsHash, KeyHash
from .row_time import RowTime
from .rows import ReadRows, RowReader, column
from .session_windows import SessionWindows
from .settings import TimeSettings
from .shared_windows import SharedWindows
from .stream_clock import StreamClock
from .time_windows import TimeWindows
from .timestamps import all_ms, bounds_ms, to_datetime, to_ms
from .watermark_tracker import WatermarkTracker
from .watermarks import END_MS, WatermarkPolicy, Watermarks
from .window import AddResult, EarlyWindow, Fired, LateWindow, Window

if TYPE_CHECKING:
    from .joins import HashJoin, JoinBolt, JoinKind, Joins

__all__ = [
    "END_MS",
    "LATE_FIELDS",
    "AddResult",
    "Aggregate",
    "BufferedCounts",
    "BufferedMachine",
    "BufferedSessions",
    "BufferedWindowBolt",
    "BufferedWindows",
    "ByFunction",
    "Collect",
    "Combined",
    "Count",
    "CountWindows",
    "Counts",
    "Distinct",
    "Dump",
    "Each",
    "EarlyWindow",
    "EarlyWindows",
    "Every",
    "FieldsHash",
    "Fired",
    "Fold",
    "Frozen",
    "Generator",
    "HashJoin",
    "IncrementalMachine",
    "JoinBolt",
    "JoinError",
    "JoinKind",
    "Joins",
    "KeyHash",
    "Late",
    "LatePolicy",
    "LateWindow",
    "Machine",
    "Max",
    "Mean",
    "Min",
    "Mixed",
    "MsEachRows",
    "Of",
    "Periodic",
    "PlainWindows",
    "Punctuated",
    "ReadRows",
    "Reduce",
    "RowReader",
    "RowTime",
    "RowsEachMs",
    "Session",
    "SessionWindows",
    "SharedWindows",
    "Sliding",
    "StatePackError",
    "StreamClock",
    "Sum",
    "TableRows",
    "Time",
    "TimeSettings",
    "TimeWindows",
    "TimestampError",
    "TopK",
    "Tumbling",
    "WatermarkPolicy",
    "WatermarkTracker",
    "Watermarks",
    "Window",
    "WindowBolt",
    "WindowDivider",
    "WindowError",
    "WindowKeyError",
    "WindowLimitError",
    "WindowRows",
    "WindowStateError",
    "WindowedBolt",
    "all_ms",
    "apply_delta",
    "bounds_ms",
    "buffered_windows",
    "check_packable",
    "column",
    "count_windows",
    "key_names",
    "readable_row",
    "time_windows",
    "to_datetime",
    "to_ms",
]


def __getattr__(name: str) -> object:
    """Names of joins, imported when they are first used: a join is a bolt, and most topologies have others."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".joins", __name__), name)
