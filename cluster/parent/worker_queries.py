"""Questions: what a parent asks the workers of a topology, and how long it waits.

1. A worker that does not answer, or cannot, holds up nobody for longer than its question may take.
2. Results come in pieces: they may be larger than a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ...actors import AskFailedError, AskTimeoutError
from ...runtime import AiostormError
from ...transport import unpack_value
from ..distributed_idle import IdleReport
from ..errors import WorkerError
from ..messages import (
    CONTROL,
    RESULT_ITEMS,
    SETUP,
    CommandFailed,
    FetchResult,
    GatherResults,
    GetIdleReport,
    PeerDied,
    PeerEnded,
    UpdateConfig,
)
from .load_errors import trouble_error
from .worker_handle import WorkerHandle

log = logging.getLogger("aiostorm.cluster")

NEWS_S: Final = 0.5
"""So long a worker that does not answer holds up what is done about the news."""


async def tell_all(worker_handles: Sequence[WorkerHandle], news: PeerEnded | PeerDied | UpdateConfig) -> None:
    """Returns when all know it, or after NEWS_S."""
    try:
        async with asyncio.timeout(NEWS_S), asyncio.TaskGroup() as group:
            for worker_handle in worker_handles:
                group.create_task(worker_handle.hear(news), name=f"{worker_handle.name} hears {type(news).__name__}")
    except TimeoutError:
        log.debug("not all have heard within %g s: %r", NEWS_S, news)


async def quiet_report(worker_handle: WorkerHandle, question: GetIdleReport) -> IdleReport | None:
    """A worker's; None if it cannot say."""
    try:
        now = replace(question, mode=worker_handle.wanted)  # not what was wanted when somebody began to ask
        report: IdleReport = await worker_handle.ask(CONTROL, now, timeout_s=30.0)
    except AiostormError as error:
        log.debug("%s does not say whether it is quiet: %s", worker_handle.name, error)
        return None
    return report


async def results_of(worker_handle: WorkerHandle) -> dict[int, Any]:
    """Task → what its `result()` returned; and a last look at the worker. One at a time. WorkerError."""
    found: dict[int, Any] = {}
    try:
        sizes = await worker_handle.ask(SETUP, GatherResults())
        if isinstance(sizes, CommandFailed):
            raise trouble_error(worker_handle.name, sizes, {})
        for task, size in sizes:
            packed = bytearray()
            while len(packed) < size:
                packed += await worker_handle.ask(SETUP, FetchResult(task, len(packed)))
            found[task] = unpack_value(bytes(packed), RESULT_ITEMS)
        await worker_handle.look()
    except (AskFailedError, AskTimeoutError) as error:
        raise WorkerError(f"{worker_handle.name} cannot give its results: {error}") from error
    return found
