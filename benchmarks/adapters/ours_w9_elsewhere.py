"""aiostorm does W9 with a bottleneck that leaves the spout's event loop alone: one that waits, one in another process.

`waiting`: ten tasks in the spouts' own loop that wait for a service (benchmarks/backpressure, "always as slow"). What
they bear is known, and the four spouts could do ten times that.

`on_worker`: a bolt that holds its event loop, as one that computes, on a second worker process. The spout has the other
one to itself; it could do more than ten times as much.

Both have the default settings: coordinated backpressure with all its defaults.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from aiostorm import Config, LocalCluster

from ..backpressure.figures import figures as of_record
from ..backpressure.figures import per_second, seconds_of
from ..backpressure.run import measure
from ..backpressure.slowness import PER_S
from ..backpressure.ways import OURS, WAYS
from ..cells import Outcome, WrongResultError
from ..clocking import run_in
from ..w9 import SAMPLE_S, Sample, rates, settled

SERVICE_S: Final = 200e-6
_DONE_S: Final = 60.0


def waiting(size: int, *, loop: str = "uvloop") -> Outcome:
    """A service that takes its time."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    record = measure("slow", OURS, size / 1_000, loop=loop)
    found, seconds = of_record(record), seconds_of(record)
    at_s = [second.at_s for second in seconds]
    done, emitted = 0, 0
    samples, emits = [Sample(0.0, 0, seconds[0].rss_mb, 0, 0)], [(0.0, 0)]
    for second in seconds:
        done, emitted = done + second.done + second.again, emitted + second.emitted + second.replayed
        samples.append(Sample(second.at_s, done, second.rss_mb, second.fill, second.pending))
        emits.append((second.at_s, emitted))
    rate_of_emits = per_second([second.emitted + second.replayed for second in seconds], seconds)
    return Outcome(
        done,
        time.perf_counter() - began_s,
        time.process_time() - began_cpu_s,
        figures={
            "rate": found.share,
            "rate off": found.done_off,
            "emit rate off": found.emit_off,
            "longest pause": found.longest_pause_s,
            "rss growth": found.growth_mb,
            "failed": found.failed,
            "latency p50": found.p50_s * 1e3,
            "latency p99": found.p99_s * 1e3,
        },
        seen=_seen(PER_S, samples, list(zip(at_s, rate_of_emits, strict=True)), WAYS[OURS].config()),
    )


def on_worker(size: int, *, loop: str = "uvloop") -> Outcome:
    """A bolt that is busy, in another process."""
    own = 1 / SERVICE_S
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    spout, bolt, fills = run_in(loop, _on_worker(size / 1_000))
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    if not spout["emitted"] == spout["acked"] == bolt["done"] or bolt["disorder"] or spout["failed"]:
        raise WrongResultError(f"{spout['emitted']} emitted, {spout['acked']} acked, {spout['failed']} failed; "
                               f"{bolt['done']} done, {bolt['disorder']} out of order")  # fmt: skip
    samples, emitted = _samples(spout, bolt, fills), _samples(spout, spout, {})
    after = [sample for sample in samples if sample.at_s > settled(samples)]
    longest = _longest_pause(spout["counts"], round(settled(samples) / SAMPLE_S))
    rate_of_emits = rates(emitted)
    return Outcome(
        bolt["done"],
        wall_s,
        cpu_s,
        figures={
            "rate": (after[-1].done - after[0].done) / (after[-1].at_s - after[0].at_s) / own,
            "rate off": _off(rates(samples), settled(samples), own),
            "emit rate off": _off(rate_of_emits, settled(samples), own),
            "longest pause": longest,
            "rss growth": max(s.rss_mb for s in samples) - next(s.rss_mb for s in samples if s.rss_mb),
            "failed": 0.0,
        },
        seen=_seen(own, samples, rate_of_emits, Config()),
    )


async def _on_worker(seconds: float) -> tuple[dict[str, Any], dict[str, Any], dict[int, int]]:
    target = f'benchmarks.w9_topology:topology("{seconds:g}", "{SERVICE_S:g}")'
    fills: dict[int, int] = {}
    async with LocalCluster(workers=2) as cluster:
        running = await cluster.submit("w9", target, Config())
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            await asyncio.sleep(SAMPLE_S)
            fills[int(time.monotonic() / SAMPLE_S)] = running.metrics()["slow"].tasks[0].fill
        await running.wait_finished(_DONE_S)
        results = await running.results()
        return results["numbers"][0], results["slow"][0], fills


def _samples(spout: dict[str, Any], counted: dict[str, Any], fills: dict[int, int]) -> list[Sample]:
    """By quarters of a second, from the first one in which the spout has emitted to the last whole one."""
    shift = counted["first"] - spout["first"]
    begin = next(place for place, count in enumerate(spout["counts"]) if count)
    found, done, fill, mb = [], 0, 0, 0.0
    for place in range(begin, len(spout["counts"]) - 1):
        at = place - shift
        known = 0 <= at < len(counted["counts"])
        done += counted["counts"][at] if known else 0
        mb = counted["rss_mb"][at] or mb if known else mb
        fill = fills.get(place + spout["first"], fill)
        found.append(Sample((place - begin + 1) * SAMPLE_S, done, mb, fill, 0))
    return found


def _off(found: list[tuple[float, float]], from_s: float, own: float) -> float:
    return max(abs(rate / own - 1) for at_s, rate in found if at_s > from_s + 1)


def _longest_pause(counts: list[int], begin: int) -> float:
    """To a quarter of a second: of stretches in which nothing was emitted."""
    longest = now = 0
    for count in counts[begin:-1]:
        now = 0 if count else now + 1
        longest = max(longest, now)
    return longest * SAMPLE_S


def _seen(own: float, samples: list[Sample], emits: list[tuple[float, float]], config: Config) -> dict[str, Any]:
    return {
        "bottleneck": own,
        "capacity": config.mailbox_capacity_tuples,
        "samples": [[s.at_s, s.done, s.rss_mb, s.fill, s.pending] for s in samples],
        "emits": emits,
    }
