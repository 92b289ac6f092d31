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
from ..errors import WorkerError
from ..idle import QuietReport
from ..messages import BUILDER, RESULT_ITEMS, STEWARD, AskQuiet, Fetch, Gather, PeerDied, PeerGone, Trouble, Update
from .station import Station
from .troubles import trouble_error

log = logging.getLogger("aiostorm.cluster")

NEWS_S: Final = 0.5
"""So long a worker that does not answer holds up what is done about the news."""


async def tell_all(stations: Sequence[Station], news: PeerGone | PeerDied | Update) -> None:
    """Returns when all know it, or after NEWS_S."""
    try:
        async with asyncio.timeout(NEWS_S), asyncio.TaskGroup() as group:
            for station in stations:
                group.create_task(station.hear(news), name=f"{station.name} hears {type(news).__name__}")
    except TimeoutError:
        log.debug("not all have heard within %g s: %r", NEWS_S, news)


async def quiet_report(station: Station, question: AskQuiet) -> QuietReport | None:
    """A worker's; None if it cannot say."""
    try:
        now = replace(question, mode=station.wanted)  # not what was wanted when somebody began to ask
        report: QuietReport = await station.ask(STEWARD, now, timeout_s=30.0)
    except AiostormError as error:
        log.debug("%s does not say whether it is quiet: %s", station.name, error)
        return None
    return report


async def results_of(station: Station) -> dict[int, Any]:
    """Task → what its `result()` returned; and a last look at the worker. One at a time. WorkerError."""
    found: dict[int, Any] = {}
    try:
        sizes = await station.ask(BUILDER, Gather())
        if isinstance(sizes, Trouble):
            raise trouble_error(station.name, sizes, {})
        for task, size in sizes:
            packed = bytearray()
            while len(packed) < size:
                packed += await station.ask(BUILDER, Fetch(task, len(packed)))
            found[task] = unpack_value(bytes(packed), RESULT_ITEMS)
        await station.look()
    except (AskFailedError, AskTimeoutError) as error:
        raise WorkerError(f"{station.name} cannot give its results: {error}") from error
    return found
