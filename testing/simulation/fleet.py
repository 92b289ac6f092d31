"""Fleet: several processes in a seeded world, each with its program, under faults of processes and of the network.

    start ─► warm up ─► faults (safety is checked) ─► heal ─► liveness (`settled`, in time) ─► stop ─► nothing is left

1. Safety, always: no program reports to `world.problem`; asyncio reports no error; no program ends with an error. A
   program that ends without an error is started again a second later, as by a supervisor (unless its spare runs).
2. Liveness, once all is healed: `settled()` within the bound.
3. At the end `stop()` asks the programs to end, and they do. A program that has ended has left neither an asyncio task
   nor a connection.
4. A violation is an InvariantError at the end of `run`.

A topology in one process has `Simulation` (run.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .faults import FLEET_KINDS, Fault, FaultScript, kinds_of
from .fleet_operator import FleetOperator
from .process_faults import draw_machine
from .run import FAULTS_S, WARM_UP_S

if TYPE_CHECKING:
    from .process import Main, Process
    from .world import World


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """The result of a run. `digest` is the same in every run of the same seed and script; times are virtual seconds."""

    seed: int
    digest: str
    script: tuple[Fault, ...]
    simulated_s: float
    recovered_s: float
    """From the end of the faults until all was settled."""
    incarnations: int
    """Of all processes together."""
    counts: Mapping[str, int]
    """Counts of the network: frames sent, received, lost; connections made, refused, cut, silenced."""
    undone: int
    """Changes of blobs that crashes have undone."""


class Fleet:
    """Processes and their faults. `only` cuts the fault script down (by index).

    `known`: the kinds that are allowed; `more` carries out those of them that belong to the workload.
    """

    def __init__(
        self,
        world: World,
        faults: str | Collection[str] | None = None,
        only: Collection[int] | None = None,
        *,
        known: Sequence[str] = FLEET_KINDS,
        more: Mapping[str, Callable[[Fault], None]] | None = None,
    ):
        self.world = world
        self.faults = FaultScript(kinds_of(faults, known), only)
        self.processes: list[Process] = []
        self.operator = FleetOperator(world, self.processes, more or {})
        self.children: set[str] = self.operator.children
        """Names of processes that other processes start, not the operator."""
        self.over = False

    def add(self, name: str, main: Main) -> Process:
        """A process of the fleet; it starts when the run begins."""

        async def program(process: Process) -> None:
            await main(process)
            self._check_end(process)

        process = self.world.process(name, program)
        self.processes.append(process)
        return process

    def add_spare(self, process: Process, main: Main) -> Process:
        """A second process for the same job: started when the first is taken for dead, by the fault "replace"."""
        spare = self.add(f"{process.name}-spare", main)
        self.operator.spare_of[spare] = process
        self.operator.spare_of[process] = spare
        return spare

    async def run(
        self,
        *,
        settled: Callable[[], bool],
        stop: Callable[[], None],
        unsettled: Callable[[], Iterable[str]] = tuple,
        check: Callable[[], Iterable[str]] = tuple,
        faults_s: float = FAULTS_S,
        liveness_s: float = 60.0,
        warm_up_s: float = WARM_UP_S,
    ) -> FleetOutcome:
        """Run the fleet through all phases. InvariantError if a promise is broken.

        `unsettled()` says what is missing, when it does not settle in `liveness_s`; `check()` names broken promises, at
        the end.
        """
        world, operator = self.world, self.operator
        faults_from_s = world.now_s + warm_up_s
        self.faults.draw(world.chance.stream("script"), faults_from_s, faults_s, fleet=True)
        world.on_process_ended = self._process_ended
        for process in self.processes:
            draw_machine(process, f"machine {process.name}")
            operator.start(process)  # a spare waits
        await asyncio.sleep(warm_up_s)
        operator.schedule(self.faults.script)
        await world.until(lambda: world.now_s >= faults_from_s + faults_s, faults_s + 1, "the faults' end")
        operator.heal()
        healed_s = world.now_s
        try:
            await world.until(lambda: bool(world.problems) or settled(), liveness_s, "what is to settle")
        except TimeoutError:
            world.problem("\n    ".join([f"{liveness_s:g} s after the last fault not all is settled", *unsettled()]))
        recovered_s = world.now_s - healed_s
        await self._end(stop)
        for problem in check():
            world.problem(problem)
        world.check()
        return self._outcome(recovered_s)

    async def _end(self, stop: Callable[[], None]) -> None:
        self.over = self.operator.over = True
        stop()
        try:
            await self.world.until(lambda: not self._alive_names(), 60, "the end")
        except TimeoutError:
            self.world.problem(f"these did not end when they were asked to: {', '.join(self._alive_names())}")

    def _alive_names(self) -> list[str]:
        return [process.name for process in self.processes if process.alive]

    def _process_ended(self, process: Process, error: BaseException | None) -> None:
        if error is not None:
            self.world.problem(f"{process.name} ended with {error!r}")
        self.world.call_at(self.world.now_s + 1.0, self.operator.start, process)

    def _check_end(self, process: Process) -> None:
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            self.world.problem(f"{process.name} has ended and left asyncio tasks: {', '.join(left)}")
        if count := self.world.switch.connections(process.name):
            self.world.problem(f"{process.name} has ended and left {count} connections")

    def _outcome(self, recovered_s: float) -> FleetOutcome:
        world = self.world
        return FleetOutcome(
            seed=world.seed,
            digest=world.trace.digest,
            script=tuple(self.faults.script),
            simulated_s=world.now_s,
            recovered_s=recovered_s,
            incarnations=sum(process.incarnation for process in self.processes),
            counts=dict(world.switch.counts),
            undone=sum(disk.lost for disk in world.disks.values()),
        )
