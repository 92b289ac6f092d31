"""A bolt that cannot keep up, and a spout that is paced at its rate. Watch it while it runs.

    aiostorm run examples.slow_database:topology            # 6 seconds; it says when the spout is paced, and why
    aiostorm pressure slow_database --watch                 # meanwhile, in another terminal
    aiostorm update slow_database -c topology.backpressure.enable=false

`readings` never runs out of rows; `save` writes each to a database that takes 2 ms, which is a mere sleep here.
Without pacing the mailbox of `save` fills in milliseconds, its gate closes for a second, and so on: the spout stops and
goes. Paced it emits about 500 a second, each second, and `save` has always something to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from aiostorm import Config, Topology, TopologyBuilder, bolt, spout

READINGS = 2_500


@spout(outputs=("sensor", "celsius"))
def readings() -> Iterator[tuple[int, float]]:
    """As many as are asked for: a file, a topic, a table."""
    for number in range(READINGS):
        yield number % 100, 15 + number % 17


@bolt(outputs="sensor")
async def save(sensor: int, celsius: float) -> int:
    """Two milliseconds for each: 500 a second, and no more."""
    await asyncio.sleep(0.002)
    return sensor


def topology() -> Topology:
    """readings ─► save. Since it is over soon, mailboxes are looked at ten times a second; once a second is usual."""
    builder = TopologyBuilder()
    builder.set_spout("readings", readings)
    builder.set_bolt("save", save).shuffle_grouping("readings")
    return builder.create_topology(config=Config(backpressure_check_interval_ms=100))
