"""The world of state: a random topology with exactly once, killed anywhere, on one process or on 1 to 3 workers.

    run(seed) ─► parent: LocalCluster, started again after each end ─► (worker-1 …) ─► StateResult
                    └─ the snapshots: one simulated disk, which forgets what was not synced     └─ Database

The database (database.py) and the plain fold of the sources (fold.py) check the run.
    python -m tests.simulation --world state       runs many seeds, and says what they found

1. All processes are on one machine. If it crashes, the disk loses what was not synced; if one process is killed, the
   disk loses nothing.
2. Once all is healed the topology finishes, in time; then the sinks and the states are those of the fold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from aiostorm import TopologyFailedError
from aiostorm.cluster import WorkerError
from aiostorm.runtime import AiostormError
from aiostorm.testing.simulation import World, world_loop
from aiostorm.testing.simulation.fleet import FleetOutcome
from aiostorm.testing.simulation.process import Process
from aiostorm.testing.simulation.process_faults import draw_machine

from ..runner import WorldResult, run_world
from .faults import Operator
from .program import PARENT, PLACE, Program, importable
from .shapes import Drawing
from .watch import watched

FAULTS_S = 3.0
LIVENESS_S = 90.0
CALM = 0.1
"""So many of the seeds have no faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateResult(WorldResult):
    workers: int
    rows: int
    executed: int
    starts: int
    snapshots: int
    frames: int


def run(
    seed: int,
    *,
    faults: str | Collection[str] | None = None,
    only: Collection[int] | None = None,
    faults_s: float = FAULTS_S,
    last: int = 0,
    max_steps: int = 3_000_000,
    workers: int | None = None,
) -> StateResult:
    """One seed; problems are returned, not raised. `last`: how many events of the trace are in the result."""
    loop = world_loop(seed, max_steps=max_steps)
    world = loop.world
    if faults is None and world.chance.stream("calm").random() < CALM:
        faults = "none"
    work = StateWorkload(world, faults, only, faults_s, workers)
    with importable(work.shape.topology), watched(work):
        result = run_world(seed, loop, work.run, lambda: work.operator.script, last)
    return StateResult(
        **result,
        workers=work.workers,
        rows=sum(map(len, work.shape.fold.logs.values())),
        executed=work.shape.outside.executed,
        starts=sum(process.incarnation for process in world.processes.values()),
        snapshots=len(work.durable),
        frames=world.switch.counts["sent"],
    )


class StateWorkload:
    """One run."""

    def __init__(
        self,
        world: World,
        faults: str | Collection[str] | None,
        only: Collection[int] | None,
        faults_s: float,
        workers: int | None,
    ) -> None:
        self.world = world
        self.workers = world.chance.stream("workers").choice((0, 0, 1, 2, 3)) if workers is None else workers
        self.durable: set[int] = set()
        """The numbers of all manifests that were ever durable."""
        self.shape = Drawing(world, self.durable, faults_s * 0.8).shape(self.workers, PLACE)
        self.program = Program(self.shape, self.workers)
        self.faults_s = faults_s
        self.disk = world.disk(PLACE)
        self.process = self.program.process = world.process(PARENT, self.program.main)
        self.operator = Operator(
            world, self.process, self.disk, self.shape.outside, self.workers, lambda: self.program.results is not None
        )
        self.operator.draw(faults, only, faults_s)
        world.on_process_ended = self._ended

    async def run(self) -> FleetOutcome | None:
        world = self.world
        draw_machine(self.process)
        self.process.start()
        self.operator.schedule()
        await asyncio.sleep(self.faults_s)
        self.operator.heal()
        try:
            await world.until(lambda: self.program.results is not None or bool(world.problems), LIVENESS_S, "the end")
        except TimeoutError:
            world.problem(f"{LIVENESS_S:g} s after the last fault the topology has not finished")
        with contextlib.suppress(TimeoutError):
            await world.until(lambda: not self._alive() or bool(world.problems), 30.0, "the end of all")
        if not world.problems:
            for name in self._alive():
                world.problem(f"{name} did not end")
            for problem in self.program.problems_at_the_end():
                world.problem(problem)
        world.check()
        return None

    def _alive(self) -> list[str]:
        return [name for name, process in self.world.processes.items() if process.alive]

    def _ended(self, process: Process, error: BaseException | None) -> None:
        if process is not self.process:
            return  # its parent sees it
        if error is not None and not isinstance(error, TopologyFailedError | WorkerError | AiostormError):
            self.world.problem(f"the parent ended with {error!r}")
        elif error is not None and not self.operator.faulty:
            self.world.problem(f"the topology failed: {error!r}")
        elif error is not None:
            self.operator.failures.append(str(error))
        if self.program.results is None:
            self.world.call_at(self.world.now_s + 0.3, self.operator.start)
