"""One seed of a world: its workload is run to the end, whatever happens, and the result is kept."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from aiostorm.testing.simulation import Fault, InvariantError
from aiostorm.testing.simulation.fleet import FleetOutcome
from aiostorm.testing.simulation.world import DriverLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldResult:
    """What every world has. `trace`: the end of it, as much as was asked for."""

    seed: int
    simulated_s: float
    digest: str
    problems: tuple[str, ...]
    script: tuple[Fault, ...]
    outcome: FleetOutcome | None
    trace: str


def run_world(
    seed: int,
    loop: DriverLoop,
    work: Callable[[], Coroutine[Any, Any, FleetOutcome | None]],
    script: Callable[[], Iterable[Fault]],
    last: int,
) -> dict[str, Any]:
    """Run it in its world; the fields of WorldResult. `last`: so many events of the trace."""
    world = loop.world
    outcome: FleetOutcome | None = None
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # tasks fail on purpose, links are cut
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                outcome = runner.run(work())
            except InvariantError:
                pass  # world.problems has them
            except Exception as error:  # a world that stands still, or polls for ever, is a finding too
                world.problem("".join(traceback.format_exception(error)[-3:]))
            trace = world.trace.text(last) if last else ""
            digest = world.trace.digest
    finally:
        logging.disable(disabled)
    return {
        "seed": seed,
        "simulated_s": world.now_s,
        "digest": digest,
        "problems": tuple(world.problems),
        "script": tuple(script()),
        "outcome": outcome,
        "trace": trace,
    }
