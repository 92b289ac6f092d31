"""The faults of the world of state, as a script that the seed draws.

| kind | what happens |
|---|---|
| machine | all processes are killed, and the disk forgets what was not synced |
| parent | the parent is killed, and its workers with it; the disk forgets nothing |
| worker | a worker is killed |
| pause | a process is frozen |
| slow | a process is slow |
| row | rows raise, once |
| sink | the database does not answer for a while |
| prepare | sinks cannot prepare their next commits |
| full, sync, disk | the disk is full; a sync fails; the disk is slow |
| sever | the connections between two processes break |
| failpoint | a process is killed at a named point (failpoints.py) |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from aiostorm.testing.simulation import Fault, World
from aiostorm.testing.simulation.faults import kinds_of
from aiostorm.testing.simulation.process import Process

from .failpoints import Failpoints

if TYPE_CHECKING:
    from aiostorm.testing.simulation.disk import Disk

    from .parts import Outside

KINDS = (
    *("machine", "parent", "worker", "pause", "slow", "row", "sink", "prepare"),
    *("full", "sync", "disk", "sever", "failpoint"),
)
MOST = 3
"""So many of a kind."""


class Operator:
    """Draws a script, and carries it out."""

    def __init__(
        self,
        world: World,
        parent: Process,
        disk: Disk,
        outside: Outside,
        workers: int,
        is_over: Callable[[], bool],
    ) -> None:
        self.world = world
        self.parent = parent
        self.disk = disk
        self.outside = outside
        self.workers = workers
        self.is_over = is_over
        self.failpoints = Failpoints(self)
        outside.database.at_commit = lambda when: self.failpoints.hit(f"the sink's commit, {when}")
        self.script: list[Fault] = []
        self.faulty = False
        self.failures: list[str] = []
        """Why the topology has failed, while there were faults."""

    def draw(self, faults: str | Collection[str] | None, only: Collection[int] | None, span_s: float) -> None:
        """Draw the script. `only`: the indices of those that happen."""
        chance = self.world.chance.stream("script")
        known = [kind for kind in KINDS if self.workers or kind not in ("worker", "sever")]
        if self.workers:
            known.remove("sync")  # a disk that all share would lose what others have synced
        asked = kinds_of(faults, KINDS)
        enabled = [kind for kind in known if kind in asked and (faults is not None or chance.random() < 0.45)]
        if asked and not enabled:
            enabled = ["failpoint"] if "failpoint" in asked else []
        drawn = [
            self._drawn(chance, kind, span_s)
            for kind in enabled
            for _ in range(chance.randint(1, MOST + 2 * (kind == "failpoint")))
        ]
        drawn.sort(key=lambda fault: fault.at_s)
        self.script = [fault for i, fault in enumerate(drawn) if only is None or i in only]

    def schedule(self) -> None:
        """Schedule each fault at its time."""
        self.faulty = True
        for fault in self.script:
            self.world.call_at(fault.at_s, self._begin, fault)

    def heal(self) -> None:
        """End all faults, and start no more."""
        self.faulty = False
        self.disk.heal()
        self.outside.fails.clear()
        self.outside.fails_to_prepare = 0
        self.outside.database.is_down = False
        self.failpoints.clear()
        for process in self.world.processes.values():
            process.processor.heal()
        self.world.trace.add(self.world.now_s, "fault", "world", "is healed")
        self.start()

    def start(self) -> None:
        """Start the parent, unless it is alive or the topology has finished."""
        if not self.parent.alive and not self.is_over():
            self.parent.start()

    def kill(self, what: str, here: Process | None = None) -> None:
        """Kill all ("machine"), the parent, or this worker; the parent is started again some time later."""
        if what == "worker" and here is not None and here is not self.parent:
            here.kill()
            return
        if self.parent.alive:
            if what == "machine":
                self.parent.crash("is killed, and its machine")
            else:
                self.parent.kill()
            chance = self.world.chance.stream(f"down {self.world.now_s}")
            self.world.call_at(self.world.now_s + 0.001 * 1000 ** chance.random(), self.start)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _drawn(self, chance: random.Random, kind: str, span_s: float) -> Fault:
        at_s, amount, for_s = chance.random() * span_s, 0.0, 0.0
        if kind in ("pause", "slow", "sink", "full", "disk"):
            for_s = 0.01 * (200 if kind == "pause" else 60) ** chance.random()
        if kind in ("slow", "disk"):
            amount = 2.0 * 25 ** chance.random()
        if kind == "pause" and self.workers and chance.random() < 0.2:
            for_s = 10.0  # beyond a lease
        if kind == "failpoint":
            amount = float(chance.randint(1, 6))
        return Fault(round(at_s, 6), kind, amount, for_s, chance.randrange(1 << 16))

    def _begin(self, fault: Fault) -> None:
        if not self.faulty:
            return
        world, alive = self.world, [process for process in self.world.processes.values() if process.alive]
        if not alive:
            return
        one = alive[fault.choice % len(alive)]
        workers = [process for process in alive if process is not self.parent]
        match fault.kind:
            case "machine" | "parent":
                self.kill(fault.kind)
            case "worker" if workers:
                self.kill("worker", workers[fault.choice % len(workers)])
            case "pause":
                one.pause(fault.for_s)
            case "slow":
                one.processor.slowness = fault.amount
                world.call_at(world.now_s + fault.for_s, one.processor.heal)
            case "row":
                rows = sorted(self.outside.database.fold.rows)
                self.outside.fails.update(rows[fault.choice % len(rows) :][:2] if rows else ())
            case "prepare":
                self.outside.fails_to_prepare += 1
            case "sever" if len(alive) > 1:
                other = alive[(fault.choice // 7) % len(alive)]
                world.switch.break_between(one.name, other.name)
            case "failpoint":
                self.failpoints.arm(fault)
            case "sink" | "full" | "sync" | "disk":
                self._outside(fault)
            case _:
                pass

    def _outside(self, fault: Fault) -> None:
        world, disk, database = self.world, self.disk, self.outside.database

        def end() -> None:
            if fault.kind == "sink":
                database.is_down = False
            elif fault.kind == "full":
                disk.full = False
            else:
                disk.slowness = 1.0

        world.trace.add(world.now_s, "fault", fault.kind, f"{fault.amount:.1f} for {fault.for_s:.3f} s")
        if fault.kind == "sync":
            disk.failing_syncs += 1
            return
        if fault.kind == "sink":
            database.is_down = True
        elif fault.kind == "full":
            disk.full = True
        else:
            disk.slowness = fault.amount
        world.call_at(world.now_s + fault.for_s, end)
