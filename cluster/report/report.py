"""Report: writes the report of a run: now, or at the end of a block in which the run is recorded.

await running.report("run.html")                  what it is now
async with running.report("run.html"): …          with timelines of the block, also if it raises
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ...runtime import AiostormError, why_unwritable, write_file
from .page import html
from .samples import Samples

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..running_topology import RunningTopology

log = logging.getLogger("aiostorm.cluster")

PERIOD_S: Final = 1.0


class ReportError(AiostormError):
    """The report could not be written."""


def unwritable(path: Path) -> str:
    """Why there can be no report at this path; empty if there can."""
    problem = why_unwritable(path)
    return f"no report: {problem}" if problem else ""


class Report:
    """The report of one running topology. Made by `RunningTopology.report`. `guard` starts a task that is not lost."""

    def __init__(
        self,
        running: RunningTopology,
        path: str | os.PathLike[str],
        clock: Clock,
        guard: Callable[[Coroutine[object, None, None]], asyncio.Task[None]],
    ) -> None:
        self._running = running
        self._path = Path(path)
        self._clock = clock
        self._guard = guard
        self._samples = Samples(PERIOD_S)
        self._recording: asyncio.Task[None] | None = None

    def __await__(self) -> Generator[object, None, None]:
        return self._write().__await__()

    async def __aenter__(self) -> Self:
        if problem := await asyncio.to_thread(unwritable, self._path):  # now, and not after hours of recording
            raise ReportError(problem)
        self._recording = self._guard(self._record())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.cancel()
            await asyncio.wait((recording,))
        if not self._running.is_over:
            self._take()
        try:
            await self._write()
        except ReportError as failed:
            if error is None:
                raise
            log.warning("%s", failed)  # the error of the block is what counts

    async def _record(self) -> None:
        while not self._running.is_over:
            self._take()
            await self._clock.sleep(self._samples.step_s)

    def _take(self) -> None:
        self._samples.take(self._clock.now(), self._running.metrics(), self._running.backpressure())

    async def _write(self) -> None:
        text = html(self._running, self._samples.kept, self._samples.step_s, self._clock.now())
        try:
            await asyncio.to_thread(write_file, self._path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise ReportError(f"no report: {self._path} cannot be written: {error.strerror or error}") from error
