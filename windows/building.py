"""Building: which machine implements the requested windows.

| assigner | state merges | machine |
|---|---|---|
| Tumbling; Sliding by its size | either | PlainWindows |
| Sliding | yes | SharedWindows: a row costs the same, whatever size / slide is |
| Sliding | no | PlainWindows: a row costs size / slide |
| Session | yes (else an error) | SessionWindows |
| Counts | either | CountWindows |
| Sliding, with early results | either | PlainWindows: a row costs size / slide; EarlyWindows around them |
| Session, with early results | yes | SessionWindows, and EarlyWindows around them |

| assigner, rows are kept | machine |
|---|---|
| Tumbling, Sliding | BufferedWindows |
| Session | BufferedSessions |
| Counts | BufferedCounts |
| Mixed | RowsEachMs, MsEachRows |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .aggregates import Aggregate
from .assigners import Counts, Mixed, Session, Sliding
from .buffered import BufferedCounts, BufferedWindows
from .buffered_sessions import BufferedSessions
from .count_windows import CountWindows
from .early import Counted, Each, EarlyWindows, Every
from .errors import WindowError
from .kept_rows import MAX_ROWS
from .mixed_windows import MsEachRows, RowsEachMs
from .plain_windows import PlainWindows
from .session_windows import SessionWindows
from .shared_windows import SharedWindows
from .time_windows import MAX_STATES, TimeWindows
from .values import is_a

if TYPE_CHECKING:
    from .machine import BufferedMachine


def time_windows(
    assigner: Sliding | Session, aggregate: Aggregate, *, allowed_lateness_ms: int = 0, max_states: int = MAX_STATES
) -> TimeWindows | SessionWindows:
    """Build incremental windows by time. WindowError if that is not possible."""
    _checked(aggregate)
    if isinstance(assigner, Session):
        return SessionWindows(assigner, aggregate, allowed_lateness_ms=allowed_lateness_ms, max_states=max_states)
    if not is_a(assigner, Sliding):
        raise WindowError(
            f"windows by time of {assigner!r}; give Tumbling, Sliding or Session (Mixed keeps its rows: derive from "
            "BufferedWindowBolt)"
        )
    shares = aggregate.merges and assigner.slide_ms < assigner.size_ms
    kind = SharedWindows if shares else PlainWindows
    return kind(assigner, aggregate, allowed_lateness_ms=allowed_lateness_ms, max_states=max_states)


def early_windows(
    assigner: Sliding | Session,
    aggregate: Aggregate,
    early: Every | Each,
    *,
    allowed_lateness_ms: int = 0,
    max_states: int = MAX_STATES,
) -> EarlyWindows:
    """Build windows by time with early results: each has its own state. WindowError if that is not possible."""
    _checked(aggregate)
    counted = Counted(aggregate)
    if isinstance(assigner, Session):
        sessions = SessionWindows(assigner, counted, allowed_lateness_ms=allowed_lateness_ms, max_states=max_states)
        return EarlyWindows(sessions, counted, early)
    if not is_a(assigner, Sliding):
        raise WindowError(f"early results of {assigner!r}; give Tumbling, Sliding or Session, or no early results")
    plain = PlainWindows(assigner, counted, allowed_lateness_ms=allowed_lateness_ms, max_states=max_states)
    return EarlyWindows(plain, counted, early)


def count_windows(assigner: Counts, aggregate: Aggregate, *, max_states: int = MAX_STATES) -> CountWindows:
    """Build incremental windows by count. WindowError if that is not possible."""
    _checked(aggregate)
    if not is_a(assigner, Counts):
        raise WindowError(f"windows by count of {assigner!r}; give Counts")
    return CountWindows(assigner, aggregate, max_states=max_states)


def buffered_windows(
    assigner: Sliding | Session | Counts | Mixed, *, allowed_lateness_ms: int = 0, max_rows: int = MAX_ROWS
) -> BufferedMachine:
    """Build windows that keep their rows. WindowError if that is not possible."""
    if isinstance(assigner, Counts):
        return BufferedCounts(assigner, max_rows=max_rows)
    if isinstance(assigner, Mixed):
        kind = RowsEachMs if assigner.size_ms is None else MsEachRows
        return kind(assigner, allowed_lateness_ms=allowed_lateness_ms, max_rows=max_rows)
    if isinstance(assigner, Session):
        return BufferedSessions(assigner, allowed_lateness_ms=allowed_lateness_ms, max_rows=max_rows)
    if not is_a(assigner, Sliding):
        raise WindowError(f"buffered windows of {assigner!r}; give Tumbling, Sliding, Session, Counts or Mixed")
    return BufferedWindows(assigner, allowed_lateness_ms=allowed_lateness_ms, max_rows=max_rows)


def _checked(aggregate: Aggregate) -> None:
    if not is_a(aggregate, Aggregate):
        raise WindowError(
            f"windows of {aggregate!r}; give an Aggregate: Count(), Sum(), Reduce(function), Fold(initial, function), …"
        )
