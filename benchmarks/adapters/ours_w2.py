"""aiostorm does W2: W1 on two worker processes, with a keyed shuffle between them.

Timed from the first sentence that a spout emits until the parent knows that all is done; the processes have started
before. Processor time is that of both workers.
"""

from __future__ import annotations

import time
from typing import Any

from aiostorm import Config, LocalCluster

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..w1 import corpus


def word_count(
    size: int,
    *,
    style: str = "batches",
    guarantee: str = "at least once",
    loop: str = "uvloop",
    config: dict[str, Any] | None = None,
) -> Outcome:
    """One run."""
    given = corpus(size)
    tracked = guarantee != "at most once"
    target = f'benchmarks.w2_topology:topology("{size}", "{style}", "{"yes" if tracked else "no"}")'
    watch, results, ended = run_in(loop, _run(target, Config(**(config or {}))))
    merged: dict[str, int] = {}
    for table in results:
        if merged.keys() & table["counts"].keys():
            raise WrongResultError("a word was counted by two tasks: the grouping by fields is broken")
        merged.update(table["counts"])
    given.check(merged)
    if tracked and ended != (len(given.sentences), 0, 0):
        raise WrongResultError(f"{ended[0]} acked, {ended[1]} failed, {ended[2]} pending of {len(given.sentences)}")
    return given.outcome(watch)


async def _run(target: str, config: Config) -> tuple[Stopwatch, list[dict[str, Any]], tuple[int, int, int]]:
    async with LocalCluster(workers=2) as cluster:
        running = await cluster.submit("w2", target, config)
        await running.wait_finished()
        ended_s = time.monotonic()
        results = (await running.results())["count"]
        metrics = running.metrics()
        spouts = [metrics[component] for component in metrics if component.startswith("sentences-")]
        watch = Stopwatch()
        watch.wall_s = ended_s - min(table["began_s"] for table in results)
        by_process = {table["began_s"]: table["cpu_s"] for table in results}
        watch.cpu_s = sum(by_process.values())
        ended = (sum(m.acked for m in spouts), sum(m.failed for m in spouts), sum(m.pending for m in spouts))
        return watch, results, ended
