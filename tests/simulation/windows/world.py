"""The workload of windows: spouts with clocks of their own, bolts with windows, on 2 or 3 workers, under faults.

    run(seed) ─► worker × 2, 3: ActorSystem, Node over SimNetwork, TaskSet with its part ─► WindowsResult
                    ▲ deaths are reported (at once, late or never), dead workers are restarted; tasks are restarted

The shapes are in windows_shapes.py, what is always true in windows_ledger.py.
    python -m tests.simulation --world windows       runs many seeds, and says what they found

1. When all spouts have ended, so has time everywhere: every window has fired, in whichever incarnation its task is.
2. Without a death, a tidy shape gives the results that the reference has for the whole stream.
3. What time alone brings (a watermark at its interval, an idle input, a window by the clock) comes when it is due.
4. At rest no task has an wakeup.
5. While one task can work, something is done: see windows_progress.py. In some seeds nothing is wrong with the world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiostorm.actors import ActorSystem
from aiostorm.cluster.scheduler import WorkerInfo, place
from aiostorm.tasks import BoltTask
from aiostorm.tasks.execute import windowing
from aiostorm.testing.simulation import Fault, World, world_loop
from aiostorm.testing.simulation.fleet import Fleet, FleetOutcome
from aiostorm.topology import make_plan
from aiostorm.transport import Node, SequenceLimits
from aiostorm.windows import END_MS

from ..planted.planting import replaced
from ..pressure.world import UnknownMessage
from ..runner import WorldResult, run_world
from ..workers.program import Program
from ..workers.workload import TasksWorkload
from .ledger import Ledger, WatchedTracker
from .progress import WindowsProgress
from .shapes import LONG_S, Drawing, whole
from .watched import Watched

KINDS = ("crash", "pause", "slow", "clock", "partition", "flap", "sever", "silence", "lag", "error")
FAULTS_S = 6.0
WARM_UP_S = 0.5
LIVENESS_S = 60.0
DUE_S = 2.0
"""What is due is done by then, if nothing has kept the process from it."""

LOOK_S = 0.25
STILL = 0.4
"""So many of the calm seeds have no faults."""

MOST_STEPS = 200_000
"""It takes 5,000; 50,000 if a join finds at once all that came while its process was frozen: row with row."""

KNOWN_S = 10.0
"""So long after the faults, what a death has left is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsResult(WorldResult):
    frames: int
    rows: int
    fired: int
    late: int
    lost: int
    deaths: int
    tidy: bool


def run(
    seed: int,
    *,
    faults: str | Collection[str] | None = None,
    only: Collection[int] | None = None,
    faults_s: float = FAULTS_S,
    last: int = 0,
    max_steps: int = MOST_STEPS,
    **options: Any,
) -> WindowsResult:
    """One seed; problems are returned, not raised. `last`: how many events of the trace are in the result."""
    loop = world_loop(seed, max_steps=max_steps, **options)
    world = loop.world
    work = WindowsWorkload(world, faults, only, faults_s)
    keeper = type("KeptHere", (WatchedTracker,), {"ledger": work.ledger})
    with replaced(windowing, "WatermarkTracker", keeper):
        result = run_world(seed, loop, lambda: work.run(faults_s), lambda: work.fleet.faults.script, last)
    ledger = work.ledger
    return WindowsResult(
        **result,
        frames=world.switch.counts["sent"],
        rows=ledger.came.total(),
        fired=ledger.fired.total(),
        late=ledger.late.total(),
        lost=ledger.lost,
        deaths=ledger.deaths,
        tidy=work.shape.tidy,
    )


class Worker(Program):
    """One worker. Its links are not checked here (the world of workers does that)."""

    work: Any

    def watch(self, system: ActorSystem, node: Node) -> Any:
        """See Watched."""
        self.system = system
        self.incarnation_id = node._links.incarnation
        self.process.current.at_death.append(partial(self.work.died, self.incarnation, self.incarnation_id))
        node.on_lost(self._lost)
        return node

    async def _ping(self, peer: str) -> None:
        return

    @property
    def timed(self) -> Iterator[BoltTask]:
        """Its bolt tasks that receive watermarks."""
        return (task for task in self.task_set.tasks.bolts if task.time.keeper is not None)


class WindowsWorkload(TasksWorkload[Worker]):
    def __init__(
        self, world: World, faults: str | Collection[str] | None, only: Collection[int] | None, faults_s: float
    ) -> None:
        super().__init__(world)
        self.ledger = self.model = Ledger(world)
        self.names = [f"w{i}" for i in range(self.chance.choice((2, 2, 2, 2, 3)))]
        self.limits = SequenceLimits(max_frames=self.chance.choice((2, 64)))
        self.calm = world.chance.stream("calm").random() < 0.3
        """No deaths, no restarts: then all must be exact."""
        if self.calm and faults is None and world.chance.stream("still").random() < STILL:
            faults = "none"
        self.shape = Drawing(world, self.ledger, WARM_UP_S + faults_s, len(self.names), calm=self.calm).shape()
        self.topology, self.config = self.shape.topology, self.shape.config
        plan = make_plan(self.topology, self.config)
        self.placement = place(self.topology, plan, [WorkerInfo(name) for name in self.names])
        kinds = faults if faults is not None else [k for k in KINDS if not (self.calm and k in ("crash", "error"))]
        self.fleet = Fleet(world, kinds, only, known=KINDS, more={"error": self._injure})
        self.rests_from_s: float | None = None
        self._trouble_s: dict[str, float] = {}
        self.progress = WindowsProgress(self.ledger, self._unharmed)
        self._known_s = world.now_s + WARM_UP_S + faults_s + KNOWN_S
        for name in self.names:
            self.add(Worker(self, name))  # type: ignore[arg-type] # it asks for what is here

    # -- what programs ask -------------------------------------------------------------------------------------------

    def died(self, incarnation: tuple[str, int], incarnation_id: int, crashed: bool) -> None:
        """A process has died, and the parent sees it: soon, late, or only when there is another."""
        for worker in self.programs:
            if worker.name == incarnation[0]:
                worker._emits = False
        if not self.fleet.over:
            self.ledger.deaths += 1
            self.report_death(incarnation, incarnation_id)

    # -- faults of its own -------------------------------------------------------------------------------------------

    def _injure(self, fault: Fault) -> None:
        """A task fails, and its next instance goes on."""
        tasks = [
            (worker, task)
            for worker in self.running
            if worker.emits
            for task in worker.task_set.tasks.bolts
            if task.task.component != "sink"
        ]
        if tasks:
            worker, task = tasks[fault.choice % len(tasks)]
            name = task.task.component
            self.ledger.restarts[name] += 1
            self.world.trace.add(self.world.now_s, "fault", f"{name}[{task.task.task_id}]", "fails")
            worker.process.loop.call_soon(worker.task_set.tasks.mailboxes[task.task.task_id].post, UnknownMessage())

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self, faults_s: float) -> FleetOutcome:
        self.load_until_s = self.world.now_s + self.shape.load_s
        self.world.call_at(self.world.now_s, self.look)
        bound_s = LIVENESS_S + (4 * self.config.message_timeout_s if self.config.message_timeout_s < LONG_S else 0)
        return await self.fleet.run(
            settled=self.settled,
            stop=self.stop,
            unsettled=self.unsettled,
            check=self.check,
            faults_s=faults_s,
            liveness_s=bound_s,
            warm_up_s=WARM_UP_S,
        )

    def settled(self) -> bool:
        """Is all over, and stays so?"""
        now_s = self.world.now_s
        if any(self.unsettled()):
            self.rests_from_s = None
            return False
        if self.rests_from_s is None:
            self.rests_from_s = now_s
        if now_s < self.rests_from_s + 1.0:
            return False
        for worker in self.running:
            for what in worker.remains(rows=False):
                self.world.problem(what)
        return True

    def unfinished(self) -> Iterator[str]:
        for i, log in enumerate(self.shape.logs):
            if left := log.left:
                yield f"{len(left)} of {len(log.rows)} rows of well {i} are not acked: {left[:3]}"
            if log.ends and not log.finished:
                yield f"well {i} has not ended"
        for worker in self.programs:
            yield from worker.waits_for
            if worker.emits:
                for task in worker.timed:
                    yield from self._open(task)
        yield from self.in_transit  # results of windows that are merged have no message that waits for them

    def _open(self, task: BoltTask) -> Iterator[str]:
        """What a task has still to do about time."""
        keeper, time = task.time.keeper, task.time.driver
        name = f"{task.task.component}[{task.task.task_id}]"
        if keeper is None or time is None:
            return
        if self.shape.ends:
            if keeper.watermark != END_MS:
                ended = sorted(task for task, known in keeper._watermarks._inputs.items() if known.ended)
                yield f"{name} has received the end of {ended}, not of all {sorted(keeper.by_input())}"
            if time.held:
                yield f"{name} holds {time.held}"
        if keeper.next_ms is not None:
            yield f"{name} waits for the clock"
        machine = None if time.windows is None else time.windows.machine
        if isinstance(machine, Watched) and machine.due:
            yield f"{name} has {len(machine.due)} windows that are due"
        # (Windows by a clock that was put back wait until it is as late again.)
        if task.time.wakeup is not None and task.time.wakeup.active and (self.shape.ends or not self.shape.by_clock):
            yield f"{name} has an wakeup"

    def check(self) -> Iterator[str]:
        """At the end."""
        yield from self.ledger.at_the_end()
        if not (self.ledger.calm and self.shape.tidy):
            return
        wanted = Counter(("windows", key, *span, tuple(rows)) for span, key, rows in whole(self.shape))
        got = Counter({result: count for result, count in self.ledger.received.items() if result[0] == "windows"})
        if self.shape.ends and wanted - got:
            yield f"{(wanted - got).total()} of {wanted.total()} windows are missing: {next(iter(wanted - got))}"
        if got - wanted:
            yield f"{(got - wanted).total()} of {got.total()} windows are wrong: {next(iter(got - wanted))}"

    # -- what is due -------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Is done what time alone brings?"""
        if self.fleet.over:
            return
        now_s = self.world.now_s
        works = []
        for worker in self.programs:
            process = worker.process
            if not process.alive or process.processor.is_harmed(now_s) or not worker.emits:
                self._trouble_s[worker.name] = now_s
                continue
            works.append(worker)
            if now_s - self._trouble_s.get(worker.name, now_s) > DUE_S:
                self._look_at(worker)
        self.progress.look(works)
        self.world.call_at(now_s + LOOK_S, self.look)

    def _unharmed(self) -> bool:
        if self.ledger.times_out and not self.ledger.calm:
            return False
        if not self.fleet.faults.kinds:
            return True
        return self.world.now_s > self._known_s and len(self.running) == len(self.names)

    def _look_at(self, worker: Worker) -> None:
        for task in worker.timed:
            time = task.time.driver
            if time is None or task.outbox.blocked or time.firing:  # it waits for capacity
                continue
            next_ms, now_ms = time.keeper.next_ms, time.now_ms()
            if next_ms is not None and next_ms < now_ms - DUE_S * 1000:
                name = f"{task.task.component}[{task.task.task_id}]"
                self.world.problem(f"{name} of {worker.name} was due {now_ms - next_ms} ms ago, and sleeps")
