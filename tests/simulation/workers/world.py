"""The workload of workers: a random topology spread over 2 to 4 processes, with links, credit and a parent.

    run(seed) ─► worker × 2 … 4: ActorSystem, Node over SimNetwork, TaskSet with its part ─► WorkersResult
                    ▲ deaths are reported (at once, late or never), dead workers are restarted

The model (model.py) keeps every tuple tree; RouterWatch and InboxWatch (workers/program.py) look at what passes.
    python -m tests.simulation --world workers       runs many seeds, and says what they found

1. A dead worker is restarted. The others learn of a death from the parent, or from the next incarnation, or both.
2. The worker of the lowest name has a spare: it may be taken for dead while it runs, or be frozen past its lease and
   go on beside its successor. The links make one of the two end.
3. Message timeouts are long where nothing but a death can lose a tuple: then none is ever needed. (With two
   workers: of three, one may learn of a death, fail what is open and continue before another learns of it, whose
   messages to the dead one are lost then. Such a tree waits for its timeout.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiostorm import Config
from aiostorm.cluster.scheduler import WorkerInfo, place
from aiostorm.testing.simulation import Fault, Source, World, world_loop
from aiostorm.testing.simulation.bolt_errors import BoltErrors
from aiostorm.testing.simulation.faults import kinds_of
from aiostorm.testing.simulation.fleet import Fleet, FleetOutcome
from aiostorm.testing.simulation.process import Process
from aiostorm.testing.simulation.process_faults import trace_fault
from aiostorm.topology import make_plan
from aiostorm.transport import SequenceLimits
from aiostorm.transport.link import send_queue as send_queue

from ..narrow import REAL_BYTES, is_narrow, large_size, lines_of
from ..planted.planting import replaced
from ..progress import ROW_S, Progress
from ..runner import WorldResult, run_world
from ..storm import draw
from .model import Incarnation, WorkersModel
from .program import Program, Watched
from .source import SpreadSource
from .spawned import PARENT, Parent, SpawnedWorker, observed_task_sets
from .workload import TasksWorkload

KINDS = (
    *("crash", "pause", "slow", "clock"),
    *("partition", "flap", "half", "sever", "silence", "refuse", "lag", "narrow"),
    *("replace", "oust", "error"),
)
FAULTS_S = 30.0
LIVENESS_S = 150.0
STILL_S = 20.0
"""Where messages are acked (without ackers: rows executed) this often, it may take longer than LIVENESS_S."""

TICK_S = 0.05
"""Longer than a bolt works on a tick tuple."""

CALM = 0.2
"""So many of the seeds have no faults."""

WARM_UP_S = 2.0
LEASE_S = 5.0
LONG_S = 1000.0
"""A message timeout that is never needed."""

MOST_LARGE, LARGEST_BYTES = 3, 60_000
"""Rows of a source that are large, where lines are narrow; and how large."""

SIZES_BYTES = ((20, 50), (200, 1000), REAL_BYTES)
"""See narrow."""

PONG_S = 2.0
"""A message of an actor is answered within that, while nothing is wrong."""

WELL_S = 10.0
"""Nothing is wrong when nothing was for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersResult(WorldResult):
    processes: int
    executed: int
    segments: int
    frames: int
    slowest_pong_s: float
    pongs: int
    superseded: int


def run(
    seed: int,
    *,
    faults: str | Collection[str] | None = None,
    only: Collection[int] | None = None,
    faults_s: float = FAULTS_S,
    last: int = 0,
    max_steps: int = 5_000_000,
    spawned: bool | None = None,
    **options: Any,
) -> WorkersResult:
    """One seed; problems are returned, not raised. `last`: how many events of the trace are in the result.

    `spawned`: with the real parent, or without; None: the seed chooses.
    """
    loop = world_loop(seed, max_steps=max_steps, **options)
    world = loop.world
    if faults is None and world.chance.stream("calm").random() < CALM:
        faults = "none"
    work = WorkersWorkload(world, faults, only, spawned)
    with (
        observed_task_sets(work),
        replaced(send_queue, "BUNDLE_BYTES", work.bundle_bytes),
        lines_of(world, SIZES_BYTES),
    ):
        result = run_world(seed, loop, lambda: work.run(faults_s), lambda: work.fleet.faults.script, last)
    return WorkersResult(
        **result,
        processes=len(work.fleet.processes),
        executed=work.model.executed,
        segments=work.segments,
        frames=world.switch.counts["sent"],
        slowest_pong_s=work.slowest_pong_s,
        pongs=work.pongs,
        superseded=work.superseded,
    )


class WorkersWorkload(TasksWorkload[Watched]):
    def __init__(
        self, world: World, faults: str | Collection[str] | None, only: Collection[int] | None, spawned: bool | None
    ) -> None:
        super().__init__(world)
        self.sources: list[Source] = []
        self.model = WorkersModel(world)
        self.bolt_errors = BoltErrors(world.chance.stream("injuries"))
        drawn = world.chance.stream("parent").random() < 0.4
        asked = set(kinds_of(faults, KINDS)) if faults is not None else set()
        self.spawned = spawned if spawned is not None else drawn and not asked & {"replace", "oust"}
        count = self.chance.choice((2, 2, 3, 4))
        self.names = [f"worker-{i + 1}" for i in range(count)] if self.spawned else [f"w{i}" for i in range(count)]
        self.limits = SequenceLimits(
            max_frames=self.chance.choice((1, 2, 4, 64)),
            max_bytes=self.chance.choice((100_000, 2_000_000)),
        )
        self.bundle_bytes = self.chance.choice((50, 500, send_queue.BUNDLE_BYTES))
        """Small ones, that rows as small as ours make what must wait for the next."""
        self._draw()
        own = {"error": self._injure, "oust": self._oust}
        self.fleet = Fleet(world, faults, only, known=self.kinds, more=own)
        self.pongs = self.segments = 0
        self.slowest_pong_s = 0.0
        self.rests_from_s: float | None = None
        self._second_look_s: float | None = None
        self._trouble_s = 0.0
        self._done = 0, 0.0
        """So much was done of what has to be, and when it was more."""
        self._cuts = 0
        self.disowned: dict[Process, int] = {}
        """Replaced, and still there: process → its incarnation."""
        self.parent: Parent | None = None
        if self.spawned:
            self._start_parent()
        else:
            self._start()

    def _start(self) -> None:
        """Workers that the operator starts."""
        for name in self.names:
            self.add(Program(self, name))
            if name == "w0":  # no peer dials it, so it may be anywhere
                self.add_spare(Program(self, name))

    def _start_parent(self) -> None:
        """A parent that the operator starts, and workers that it starts."""
        self.parent = Parent(self)
        self.parent.process = self.fleet.add(PARENT, self.parent.main)
        for name in self.names:
            self.fleet.children.add(name)
            self.add(SpawnedWorker(self, name))

    def _draw(self) -> None:
        """Topology, configuration, placement."""
        chance = self.chance
        self.model.tracked = chance.random() < 0.75
        forgets = self.model.tracked and chance.random() < 0.3
        topology, config = draw(
            self,
            self.model,
            source=SpreadSource,
            counts=(50, 150, 400),
            fails=self.model.tracked,
            forgets=forgets,
            paces=(0.0, 0.005, 0.03),
            hangs_s=(5.0, 30.0),
            local=False,
        )
        if is_narrow(self.world):
            self._enlarge()
        held_s = float(config.message_timeout_s) if config.message_timeout_s > 30 else 10.0  # see storm.BoltBehaviour
        self.kinds = KINDS if self.model.tracked else tuple(kind for kind in KINDS if kind != "error")
        self.topology = self.bolt_errors.with_errors(topology) if "error" in self.kinds else topology
        self.capacity = chance.choice((1, 2, 3, 8, 64))
        changes: Mapping[str, Any] = {
            "workers": len(self.names),
            "mailbox_capacity_tuples": self.capacity,
            "acker_executors": chance.choice((None, None, 1, 2)) if self.model.tracked else 0,
            "message_timeout_s": held_s if forgets or len(self.names) > 2 else LONG_S,
            # Paced spouts keep mailboxes from being full: full ones must occur, too.
            "backpressure_enable": chance.random() < 0.5,
            "backpressure_check_interval_ms": chance.choice((100.0, 250.0, 1000.0)),
        }
        self.config: Config = config.merge(changes)
        self.timeout_s = float(self.config.message_timeout_s)
        plan = make_plan(self.topology, self.config)
        self.placement = place(self.topology, plan, [WorkerInfo(name) for name in self.names])
        self.model.hosts = {
            component: frozenset(self.placement[task] for task in tasks) for component, tasks in plan.tasks_of.items()
        }
        self.overfilled = {task for _, consumer in plan.feedback for task in plan.tasks_of[consumer]}

    def _enlarge(self) -> None:
        """Some rows are so large that they take their time: up to 150 of the smallest windows, a round trip each."""
        chance = self.world.chance.stream("large")
        most_bytes = min(LARGEST_BYTES, 150 * SIZES_BYTES[0][0] * self.limits.max_frames)
        for source in self.sources:
            assert isinstance(source, SpreadSource)
            rows = source.shared.rows
            for i in chance.sample(range(len(rows)), chance.randint(1, MOST_LARGE)):
                rows[i] = ("x" * large_size(chance, most_bytes),)

    # -- what programs ask -------------------------------------------------------------------------------------------

    def died(self, incarnation: Incarnation, incarnation_id: int, crashed: bool) -> None:
        """A process has died, and the parent sees it: soon, late, or only when there is another."""
        self.model.ends(incarnation)
        self.trouble()
        if self.fleet.over or self.spawned:
            return
        self.report_death(incarnation, incarnation_id)

    def trouble(self) -> None:
        """Something is wrong, or was until now."""
        self._trouble_s = self.world.now_s

    def pinged(self, program: Program, peer: str, began_s: float) -> None:
        """A question was answered. Within a bound, if nothing was wrong since long before."""
        self._check_more()
        took_s = self.world.now_s - began_s
        if began_s - self._trouble_s < WELL_S:
            return
        self.pongs += 1
        self.slowest_pong_s = max(self.slowest_pong_s, took_s)
        if took_s > PONG_S and program.process.alive:
            self.world.problem(f"{program.name} waits {took_s:.3f} s for an answer of {peer}, and nothing is wrong")

    # -- faults of its own -------------------------------------------------------------------------------------------

    def _injure(self, fault: Fault) -> None:
        bolts = [spec.id for spec in self.topology.components.values() if spec.kind == "bolt"]
        component = self.bolt_errors.arm(bolts, int(fault.amount))
        self.world.trace.add(self.world.now_s, "fault", component, "raises at its next tuple")

    def _oust(self, fault: Fault) -> None:
        """It is frozen past its lease, another takes its place; then it goes on."""
        for process in self.fleet.operator.spare_of:
            if process.alive:
                process.pause(fault.for_s)
                self.world.call_at(self.world.now_s + LEASE_S, self._replace, process, process.incarnation)
                return

    def _replace(self, process: Process, incarnation: int) -> None:
        operator = self.fleet.operator
        if operator.faulty and process.alive and process.incarnation == incarnation:
            program = next(program for program in self.programs if program.process is process)
            trace_fault(process, "is replaced: it has given no heartbeat")
            if program.incarnation[1]:
                self.notify_of_death(program.incarnation, program.incarnation_id)
                self.model.ends(program.incarnation)
            operator.start_beside(operator.spare_of[process])
            self.disowned[process] = incarnation
            self._disown(process, incarnation, self.chance.random() * 5.0)

    def _disown(self, process: Process, incarnation: int, after_s: float) -> None:
        """It has no parent any more: some time after it goes on it finds that out, and ends."""
        world = self.world
        if not process.alive or process.incarnation != incarnation:
            self.disowned.pop(process, None)
        elif process.processor.paused_until_s > world.now_s or after_s > 0:
            frozen = process.processor.paused_until_s > world.now_s
            world.call_at(world.now_s + 0.2, self._disown, process, incarnation, after_s if frozen else after_s - 0.2)
        else:
            del self.disowned[process]
            process.kill("ends: its parent has another")
            world.call_at(world.now_s + 1.0, self.fleet.operator.start, process)

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self, faults_s: float) -> FleetOutcome:
        self.load_until_s = self.world.now_s + WARM_UP_S + faults_s + 2.0
        self.healed_s = self.world.now_s + WARM_UP_S + faults_s
        for source in self.sources:
            assert isinstance(source, SpreadSource)
            source.shared.offer_in_bursts(self.chance, self.world.now_s, self.load_until_s)
        self._watch()
        self._watch_progress()
        return await self.fleet.run(
            settled=self.settled,
            stop=self.stop,
            unsettled=self.unsettled,
            check=self.model.at_the_end,
            faults_s=faults_s,
            liveness_s=20 * LIVENESS_S,
            warm_up_s=WARM_UP_S,
        )

    def _watch_progress(self) -> None:
        """Where nothing can be lost and no worker died: is all done that can be?"""
        if not self.model.tracked:
            return
        sources = {f"s{i}": source for i, source in enumerate(self.sources)}
        bolts = len(self.topology.components) - len(sources)
        whole = "error" not in self.kinds and self.timeout_s == LONG_S
        progress = Progress(
            self.model,
            sources,
            self.config,
            bolts,
            excused=self._harmed,
            calm=lambda: whole and not self.model.deaths,
            spread=True,
        )
        self.world.call_at(self.world.now_s + WARM_UP_S, progress.watch)

    def _harmed(self) -> bool:
        """Is something wrong, or was until now? (What is lost with a death may wait for its timeout: see 3.)"""
        waits = bool(self.model.deaths) and (len(self.names) > 2 or self.timeout_s < LONG_S)
        return self.fleet.over or waits or self.world.now_s < self._trouble_s + WELL_S

    def stop(self) -> None:
        if self.parent is not None and self.parent.process.alive:
            self.parent.process.loop.call_soon(self.parent.stop)
        super().stop()

    def _watch(self) -> None:
        self._check_more()
        self.world.call_at(self.world.now_s + 0.2, self._watch)

    def _check_more(self) -> None:
        counts = self.world.switch.counts
        cuts = counts["lost"] + counts["cut"] + counts["connections"] + counts["refused"]
        if cuts != self._cuts or self.fleet.operator._lasting._open or len(self.running) != len(self.names):
            self._cuts = cuts
            self.trouble()
        for program in self.running:
            if program.process.processor.is_harmed(self.world.now_s) or not program.emits:
                self.trouble()

    def settled(self) -> bool:
        """Is everything acked and at rest, and has been for as long as what is late may take?"""
        now_s = self.world.now_s
        if self.rests_from_s is None:
            bound_s = LIVENESS_S + (4 * self.timeout_s if self.timeout_s < LONG_S else 0)
            if not any(self.unsettled()):
                self.rests_from_s = now_s
            elif now_s > self.healed_s + bound_s and not self._gets_on(now_s, bound_s):
                what = "\n    ".join(list(self.unsettled())[:8])
                self.world.problem(f"{bound_s:g} s after the last fault not all is settled:\n    {what}")
            return False
        rows = self.timeout_s < LONG_S
        if now_s < self.rests_from_s + (1.2 * self.timeout_s if rows else 1.0):
            return False
        if self._second_look_s is None and any(self.unsettled()):
            self._second_look_s = now_s + TICK_S  # a bolt may be working on a tick tuple right now
        if self._second_look_s is not None and now_s < self._second_look_s:
            return False
        for what in self.unsettled():
            self.world.problem(f"all was at rest, and then it was not any more: {what}")
        for program in self.running:
            for what in program.remains(rows=rows):
                self.world.problem(what)
        return True

    def _gets_on(self, now_s: float, bound_s: float) -> bool:
        """Is it only much to do? (Four hundred messages one at a time, through bolts that hold each for a tick.)

        Each row that is executed is one less, if nothing is replayed: without ackers, where a message counts as acked
        when it is emitted, and once all messages are acked, when rows of attempts that timed out are still on their way
        (in a cycle: many). Then it may take what it takes at the most. While messages are replayed there is a bound.
        """
        done, most_s = (self.model.acked, self.model.executed), 3 * bound_s
        if not self.model.tracked or not any(source.left for source in self.sources):
            most_s += ROW_S * self.model.executed
        if done != self._done[0]:
            self._done = done, now_s
        return now_s < self._done[1] + STILL_S and now_s < self.healed_s + most_s

    def is_complete(self) -> bool:
        if self.disowned or (self.parent is not None and self.parent.running is None):
            return False
        return super().is_complete()

    def unfinished(self) -> Iterator[str]:
        for source in self.sources:
            if left := source.left:
                failure = source.last_failure.get(left[0])
                often = f"message {left[0]} was emitted {source.emitted.get(left[0], 0)} times, last failure: {failure}"
                yield f"{len(left)} of {len(source.rows)} messages of {source._state.name} are not acked; {often}"
        for program in self.running:
            yield from program.waits_for
        yield from self.in_transit
