"""The status that a worker reports to its parent: what is new, as much as fits into one payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from ...metrics import pack_task
from ...runtime import look_at_process
from ...transport import UnsendableError, pack_value
from ..messages import GetStatus, StatusReport

if TYPE_CHECKING:
    from ...topology import MessageId
    from ..local_runtime import LocalRuntime

MAX_PENDING_SHOWN: Final = 1000
"""The largest number of message ids in a report."""

MAX_REPORT_BYTES: Final = 192 * 1024
"""The bytes of message ids, of errors and of stalls in a report, each: together they must fit into one payload."""

ID_BYTES: Final = 4096
"""A larger message id is shown as text, cut to SHOWN_CHARS."""

SHOWN_CHARS: Final = 200

T = TypeVar("T")


def status_report(part: LocalRuntime, order: GetStatus) -> StatusReport:
    """The status of the tasks here, with the errors, stalls and events that the parent does not have yet."""
    reports = part.reports
    pressure = None
    if part.task_set.tasks.master is not None:
        view = reports.backpressure()
        pressure = replace(view, events=_last(view.events, reports.event_count - order.events))
    spans, span_count = reports.spans.after(order.spans)
    return StatusReport(
        tuple(pack_task(task) for component in reports.metrics().values() for task in component.tasks),
        _last(reports.errors(), reports.error_count - order.errors),
        reports.error_count,
        _last(reports.stalls(), reports.stall_count - order.stalls),
        reports.stall_count,
        _pending(part) if order.pending else {},
        pressure,
        reports.event_count,
        look_at_process(),
        spans,
        span_count,
        part.task_set.tasks.env.clock.stopwatch(),
    )


def span_report(part: LocalRuntime, count: int) -> StatusReport:
    """Only what is kept of sampled tuple trees, after the first `count` rows."""
    spans, span_count = part.reports.spans.after(count)
    return StatusReport(spans=spans, span_count=span_count, clock_s=part.task_set.tasks.env.clock.stopwatch())


def _pending(part: LocalRuntime) -> Mapping[str, tuple[MessageId, ...]]:
    shown: dict[str, tuple[MessageId, ...]] = {}
    left, left_bytes = MAX_PENDING_SHOWN, MAX_REPORT_BYTES
    for component, ids in part.reports.pending().items():
        found: list[MessageId] = []
        for message_id in ids[:left]:
            shown_id, size_bytes = _sendable(message_id)
            left_bytes -= size_bytes
            if left_bytes < 0:
                break
            found.append(shown_id)
        shown[component] = tuple(found)
        left -= len(found)
    return shown


def _sendable(message_id: MessageId) -> tuple[MessageId, int]:
    """A message id as it is reported, and its size in bytes."""
    try:
        size_bytes = len(pack_value(message_id))
    except UnsendableError:
        size_bytes = MAX_REPORT_BYTES
    if size_bytes <= ID_BYTES:
        return message_id, size_bytes
    shown = repr(message_id)[:SHOWN_CHARS]
    return shown, 4 * len(shown)


def _last(items: Sequence[T], new: int) -> tuple[T, ...]:
    """The last `new` items, as many as fit into a report."""
    found: list[T] = []
    left_bytes = MAX_REPORT_BYTES
    for one in reversed(items[-new:] if new > 0 else ()):
        left_bytes -= len(pack_value(one))
        if left_bytes < 0:
            break
        found.append(one)
    return tuple(reversed(found))
