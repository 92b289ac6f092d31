"""Worker queries: what a parent asks the workers of a topology, and how long it waits.

1. A worker that does not answer delays the parent no longer than the timeout of its question.
2. Results come in pieces: they may be larger than a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...actors import AskFailedError, AskTimeoutError
from ...runtime import AiostormError
from ...transport import unpack_value
from ..errors import WorkerError
from ..messages import (
    CONTROL,
    RESULT_ITEMS,
    SETUP,
    CommandFailed,
    FetchResult,
    GatherResults,
    GetIdleReport,
    GetSpans,
    PeerDied,
    PeerEnded,
    SetLogLevel,
    TakeProfile,
    UpdateConfig,
    WantTraces,
)
from .command_errors import command_error

if TYPE_CHECKING:
    from ...topology import Result
    from ..distributed_idle import IdleReport
    from ..messages import StatusReport
    from .worker_handle import WorkerHandle

log = logging.getLogger("aiostorm.cluster")

NEWS_S: Final = 0.5
"""How long a worker that does not answer delays the next step."""


async def notify_all(
    worker_handles: Sequence[WorkerHandle],
    news: PeerEnded | PeerDied | UpdateConfig | WantTraces | TakeProfile | SetLogLevel,
) -> None:
    """Send a message to all workers; returns when all have answered, or after NEWS_S."""
    try:
        async with asyncio.timeout(NEWS_S), asyncio.TaskGroup() as group:
            for worker_handle in worker_handles:
                group.create_task(worker_handle.notify(news), name=f"{type(news).__name__} to {worker_handle.name}")
    except TimeoutError:
        log.debug("not all workers have answered within %g s: %r", NEWS_S, news)


async def fetch_spans(worker_handles: Sequence[WorkerHandle]) -> None:
    """Fetch what the workers have kept of sampled tuple trees; returns when all have answered, or after NEWS_S."""
    try:
        async with asyncio.timeout(NEWS_S), asyncio.TaskGroup() as group:
            for worker_handle in worker_handles:
                if worker_handle.works:
                    group.create_task(_fetch_spans(worker_handle), name=f"spans of {worker_handle.name}")
    except TimeoutError:
        log.debug("not all workers have sent their spans within %g s", NEWS_S)


async def _fetch_spans(worker_handle: WorkerHandle) -> None:
    reports = worker_handle.reports
    try:
        while True:
            built, count = reports.times_ended, reports.spans.count
            report: StatusReport = await worker_handle.ask(CONTROL, GetSpans(count), timeout_s=NEWS_S)
            if reports.times_ended != built or report.span_count <= count:
                return
            reports.spans.take(report.spans, report.span_count)
    except AiostormError as error:
        log.debug("%s has sent no spans: %s", worker_handle.name, error)


async def idle_report(worker_handle: WorkerHandle, question: GetIdleReport) -> IdleReport | None:
    """The report of a worker; None if it does not answer."""
    try:
        now = replace(question, mode=worker_handle.mode)  # the mode may have changed since the question was made
        report: IdleReport = await worker_handle.ask(CONTROL, now, timeout_s=30.0)
    except AiostormError as error:
        log.debug("%s has sent no idle report: %s", worker_handle.name, error)
        return None
    return report


async def results_of(worker_handle: WorkerHandle) -> dict[int, Result]:
    """Task → what its `result()` returned; polls the worker, too. One call at a time. WorkerError."""
    found: dict[int, Result] = {}
    try:
        sizes = await worker_handle.ask(SETUP, GatherResults())
        if isinstance(sizes, CommandFailed):
            raise command_error(worker_handle.name, sizes, {})
        for task, size in sizes:
            packed = bytearray()
            while len(packed) < size:
                packed += await worker_handle.ask(SETUP, FetchResult(task, len(packed)))
            found[task] = unpack_value(bytes(packed), RESULT_ITEMS)
        await worker_handle.poll()
    except (AskFailedError, AskTimeoutError) as error:
        raise WorkerError(f"{worker_handle.name} cannot send its results: {error}") from error
    return found
