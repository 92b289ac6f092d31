"""Run: one slowness under one way, in this process.

    python -m benchmarks.backpressure.run SLOWNESS WAY SECONDS [virtual]

In virtual time nothing else on the machine can be seen, and what a processor does takes no time: it shows what the
rules come to, before it is measured what a machine makes of them.

The record is the last line of standard output, after a marker. At the end the slow bolt is no longer slow, so that the
tuples under way are soon done; what happens then is checked, but not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from aiostorm import LocalCluster, RunningTopology
from aiostorm.runtime import Rng
from aiostorm.testing import VirtualTimeLoop

from ..clocking import run_in
from ..resident import peak_rss_mb, rss_mb
from .slowness import KINDS, PER_S
from .tally import Histogram, Tally
from .topology import SPOUTS, TIMES, Run, topology
from .ways import HERON, OURS, WAYS, StopAndGo, stop_and_go

VIRTUAL: Final = "virtual"
MARK: Final = "backpressure record: "
WARM_S: Final = 20.0
"""What is said of rates is said of the time behind this."""
END_S: Final = 60.0
"""So long what is on its way at the end may take."""
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Second:
    """What was seen at the end of a second; counts are of it alone, seconds since the start. Latencies in seconds.

    `done` are numbers that were done for the first time, `again` those done once more; `bears` is how many the bolt
    could have done. `fill` is of the fullest mailbox of the slow bolt, in tuples.
    """

    at_s: float
    emitted: int
    done: int
    again: int
    bears: float
    failed: int
    replayed: int
    pending: int
    fill: int
    rss_mb: float
    p50_s: float | None
    p99_s: float | None


def warm_of(seconds: float) -> float:
    """A short run has a shorter start."""
    return min(WARM_S, seconds // 3)


def measure(slowness: str, way: str, seconds: float, *, loop: str = "uvloop") -> dict[str, Any]:
    """One run, in an event loop of its own. WrongResultError if a number was not done, or not acked."""
    gc.collect()
    if loop == VIRTUAL:
        virtual = VirtualTimeLoop()
        with asyncio.Runner(loop_factory=lambda: virtual) as runner:
            return runner.run(watched(slowness, way, seconds, virtual.time))
    return run_in(loop, watched(slowness, way, seconds))  # type: ignore[no-any-return]


async def watched(
    slowness: str, way: str, seconds: float, clock: Callable[[], float] = time.perf_counter, rng: Rng | None = None
) -> dict[str, Any]:
    """The same in this event loop: the record. In virtual time a run with a seeded `rng` is always the same."""
    warm_s = warm_of(seconds)
    tally = Tally(SPOUTS, round(TIMES * PER_S * (seconds + 5) / SPOUTS), int(seconds + END_S))
    tally.counts_from_s = warm_s
    seen = await _Watched(Run(KINDS[slowness](seconds), tally, clock), way, seconds).watch(rng)
    tally.check()
    return {"slowness": slowness, "way": way, "seconds": seconds, "warm_s": warm_s, **seen}


class _Watched:
    """A run, second by second."""

    def __init__(self, run: Run, way: str, seconds: float) -> None:
        self.run, self.way, self.lasting_s = run, WAYS[way], seconds
        self.rule = StopAndGo()
        self.seconds: list[Second] = []
        self.changes = 0
        self._state = "NORMAL"
        self._before = (0.0, 0, 0, 0, 0, 0)

    async def watch(self, rng: Rng | None) -> dict[str, Any]:
        async with LocalCluster(rng=rng) as cluster:
            self.run.begin()
            running = await cluster.submit("backpressure", topology(self.run), self.way.config())
            steering = asyncio.create_task(self._steer(running))
            try:
                await self._look_on(running)
                peak_mb = peak_rss_mb()
                self.run.tally.finished(self.run.now_s())
                counts = running.metrics()["source"]
                seen = {"failed": counts.failed, "replayed": counts.replayed, "emitted": sum(self.run.tally.emitted)}
                self.run.over = True
                await running.wait_finished(END_S)
            finally:
                steering.cancel()
        tally, warm_s = self.run.tally, self.run.tally.counts_from_s
        counted = tally.latencies[round(warm_s) : int(self.lasting_s)]
        return {
            **seen,
            "again": tally.again,
            "peak_mb": peak_mb,
            "p50_s": Histogram.quantile(0.5, counted),
            "p99_s": Histogram.quantile(0.99, counted),
            "longest_pause_s": tally.longest_pause_s,
            "pauses": tally.pauses,
            "transitions": self.rule.transitions if self.way.name == HERON else self.changes,
            "series": [list(asdict(second).values()) for second in self.seconds],
        }

    async def _steer(self, running: RunningTopology) -> None:
        if self.way.name == HERON:
            await stop_and_go(running, self.rule, ("pass", "slow"))

    async def _look_on(self, running: RunningTopology) -> None:
        while (now_s := self.run.now_s()) < self.lasting_s:
            self.run.tally.look(running.metrics()["source"].replayed, now_s)
            if now_s >= len(self.seconds) + 1:
                self._second(running, now_s)
            if self.way.name == OURS:
                state = running.backpressure().state
                self.changes += state != self._state
                self._state = state
            await asyncio.sleep(max(0.0, min(_LOOK_S, len(self.seconds) + 1 - self.run.now_s())))
        self._second(running, self.run.now_s())

    def _second(self, running: RunningTopology, now_s: float) -> None:
        tally, metrics = self.run.tally, running.metrics()
        source, slow = metrics["source"], metrics["slow"]
        now = (now_s, sum(tally.emitted), tally.first, tally.again, source.failed, source.replayed)
        from_s, *before = self._before
        emitted, done, again, failed, replayed = (new - old for new, old in zip(now[1:], before, strict=True))
        self._before = now
        latencies = [tally.latencies[int(from_s + 0.5)]]
        self.seconds.append(
            Second(
                now_s,
                emitted,
                done,
                again,
                self.run.slowness.bears(from_s, now_s),
                failed,
                replayed,
                source.pending,
                max(task.fill for task in slow.tasks),
                rss_mb(),
                Histogram.quantile(0.5, latencies),
                Histogram.quantile(0.99, latencies),
            )
        )


def main() -> None:
    slowness, way, seconds, *virtual = sys.argv[1:]
    record = measure(slowness, way, float(seconds), loop=VIRTUAL if virtual else "uvloop")
    print(f"\n{MARK}{json.dumps({**record, 'virtual': bool(virtual)})}")


if __name__ == "__main__":
    main()
