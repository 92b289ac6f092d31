"""Clocking: wall and processor time of a stretch of code, and the quantiles of many latencies."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

LOOPS = ("uvloop", "asyncio")


class Stopwatch:
    """`with Stopwatch() as watch: …`, then `watch.wall_s` and `watch.cpu_s` (of all threads of the process)."""

    wall_s = 0.0
    cpu_s = 0.0

    def __enter__(self) -> Self:
        self._cpu_s = time.process_time()
        self._wall_s = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wall_s = time.perf_counter() - self._wall_s
        self.cpu_s = time.process_time() - self._cpu_s


def quantiles(latencies_s: Iterable[float]) -> dict[str, float]:
    """p50, p99 and max, each a latency that was measured (nearest rank)."""
    ordered = sorted(latencies_s)
    if not ordered:
        raise ValueError("no latencies: nothing arrived")

    def at(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return {"p50": at(0.5), "p99": at(0.99), "max": ordered[-1]}


def run_in(loop: str, work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a fresh event loop of the named kind."""
    with asyncio.Runner(loop_factory=_factory(loop)) as runner:
        return runner.run(work)


def _factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if loop == "uvloop":
        import uvloop

        return uvloop.new_event_loop  # type: ignore[no-any-return, unused-ignore]
    if loop == "asyncio":
        return asyncio.new_event_loop
    raise ValueError(f"a loop is one of {', '.join(LOOPS)}, not {loop!r}")
