"""A trace over real worker processes: its steps are what was slept, and add up to the latency that was measured."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from aiostorm import LocalCluster

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a worker of ours listens at a unix socket"),
]


async def test_the_steps_add_up_to_the_complete_latency_within_a_twentieth() -> None:
    async with LocalCluster(workers=2) as cluster:
        running = await cluster.submit("t", "tests.cluster.test_tracing:spread")
        begun_s = time.time()
        trace = await running.trace("second", timeout_s=60)
        async with asyncio.timeout(60):
            while running.metrics()["spout"].acked < 3:  # noqa: ASYNC110 - workers report
                await asyncio.sleep(0.05)
        latency_s = running.metrics()["spout"].complete_latency_s
        await running.kill(0)
    assert {span.worker for span in trace.spans} | {trace.worker} == {"worker-1", "worker-2"}
    assert trace.complete_s is not None
    assert sum(step.seconds for step in trace.path) == pytest.approx(trace.complete_s, rel=0.05)
    assert trace.complete_s == pytest.approx(latency_s, rel=0.25)  # other trees waited for other things
    assert trace.emitted_at_s >= begun_s - 2
    first, second = trace.spans
    assert first.ended_s - first.begun_s == pytest.approx(0.5, rel=0.1)
    assert second.ended_s - second.begun_s == pytest.approx(0.75, rel=0.1)
    parts_s = first.ended_s + (second.arrived_s - first.ended_s) + (second.ended_s - second.arrived_s)
    assert parts_s == pytest.approx(trace.complete_s, rel=0.05)  # without moving times together
    assert 0 < trace.error_s < 0.1
