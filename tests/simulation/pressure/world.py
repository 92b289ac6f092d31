"""The workload of pressure: a topology that cannot keep up, for a while; what backpressure monitors, master and spouts
say is lost.

    run(seed) ─► process: LocalCluster, mailboxes that hurt what is said about pressure ─► PressureResult
                  warm up ─► faults, slow bolts ─► healed: all NORMAL within a bound ─► nothing is left

The shapes are in pressure_shapes.py, what must be so in pressure_watch.py.
    python -m tests.simulation --world pressure      runs many seeds, and says what they found
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from aiostorm import Config, LocalCluster, RunningTopology
from aiostorm.backpressure import Settings
from aiostorm.testing.simulation import Fault, World, world_loop
from aiostorm.testing.simulation.faults import kinds_of
from aiostorm.testing.simulation.invariants import remains
from aiostorm.testing.simulation.process import Process
from aiostorm.testing.simulation.process_faults import LastingFaults, draw_machine
from aiostorm.topology import make_plan

from ..runner import WorldResult, run_world
from .mailboxes import PressureMailboxes
from .scene import Scene
from .shapes import draw, marks
from .watch import LOOKS, Watch

KINDS = ("loss", "repeat", "late", "master", "bolt", "spout", "monitor", "update", "lull", "off")
MOST = {"loss": 4, "repeat": 2, "late": 3, "master": 4, "bolt": 3, "spout": 3, "monitor": 2, "update": 3, "lull": 2}
"""In 75 check intervals."""

OFF_SHARE = 0.2
"""Of the seeds: while the next order is under way, all is switched off."""

FAULTS_S = 600.0
INTERVALS = 0.25
"""Check intervals for each second of faults that is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureResult(WorldResult):
    """`settled`: check intervals from the end of the faults until no spout waited; `bound` of them were allowed."""

    kind: str
    executed: int
    messages: int
    throttled: bool
    settled: float
    bound: float


def run(
    seed: int,
    *,
    faults: str | Collection[str] | None = None,
    only: Collection[int] | None = None,
    faults_s: float = FAULTS_S,
    last: int = 0,
    max_steps: int = 3_000_000,
    kind: str | None = None,
    **options: Any,
) -> PressureResult:
    """One seed; problems are returned, not raised. `last`: how many events of the trace are in the result."""
    loop = world_loop(seed, max_steps=max_steps, **options)
    world = loop.world
    work = PressureWorkload(world, faults, only, faults_s, kind)
    result = run_world(seed, loop, work.run, lambda: work.script, last)
    return PressureResult(
        **result,
        kind=work.shape.kind,
        executed=work.scene.executed,
        messages=work.mailboxes.counts.total() if work.mailboxes is not None else 0,
        throttled=work.watch is not None and work.watch.throttled,
        settled=work.settled_s / work.interval_s,
        bound=work.watch.release_s / work.interval_s if work.watch is not None else 0.0,
    )


class UnknownMessage:
    """A message that no actor knows: the receiver fails, and its guardian restarts it."""

    def __repr__(self) -> str:
        return "a message that no actor understands (simulated)"


class PressureWorkload:
    def __init__(
        self,
        world: World,
        faults: str | Collection[str] | None,
        only: Collection[int] | None,
        faults_s: float,
        kind: str | None = None,
        interval_s: float | None = None,
    ) -> None:
        self.world = world
        self.scene = Scene(world)
        intervals = max(20, round(faults_s * INTERVALS))
        self.shape = draw(self.scene, world.now_s + 2.0, intervals, kind, interval_s)
        self.interval_s = self.shape.interval_s
        self.from_s = world.now_s + 2.0
        self.until_s = self.from_s + intervals * self.interval_s
        chance = world.chance.stream("script")
        kinds = kinds_of(faults, KINDS)
        drawn = script(chance, [kind for kind in kinds if kind in MOST], self.from_s, intervals, self.interval_s)
        if "off" in kinds:
            drawn += switches(world.chance.stream("off"), self.from_s, self.until_s, self.interval_s)
        self.script = [fault for i, fault in enumerate(drawn) if only is None or i in only]
        self.chance = world.chance.stream("deaths")
        self.windows = LastingFaults(world, self.rewire)
        self.faulty = False
        self.wants_pacing = self.shape.config.backpressure_enable
        self.updates = deque[dict[str, Any]]()  # those that are not begun yet
        self.settled_s = 0.0
        self.mailboxes: PressureMailboxes | None = None
        self.watch: Watch | None = None
        self.running: RunningTopology
        self.ending: asyncio.Event
        self.process = world.process("pressure", self.main)
        draw_machine(self.process)
        if world.chance.stream("speed").random() < 0.5:  # what takes no time happens at the same moment as other things
            self.process.processor.handle_cost_s = 0.0
        self._base = self.shape.config

    # -- the program -------------------------------------------------------------------------------------------------

    async def main(self, process: Process) -> None:
        shape = self.shape
        self.ending = asyncio.Event()
        self.mailboxes = mailboxes = PressureMailboxes(process, make_plan(shape.topology, shape.config).master)
        async with LocalCluster(rng=process.rng, mailbox_wrapper=mailboxes) as cluster:
            self.running = await cluster.submit("pressure", shape.topology, shape.config)
            self.watch = Watch(self.scene, self.running, mailboxes, shape.innocent)
            await self.ending.wait()
            await self.running.kill()
        left = [handle for handle in process.loop._scheduled if not handle.cancelled()]
        if left:
            self.world.problem(f"all has ended, and {len(left)} timers are left: {left[0]!r:.200}")

    # -- the phases --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        world = self.world
        self.process.start()
        await world.until(lambda: self.watch is not None or bool(world.problems), 1.0, "the start")
        self.look()
        self.faulty = True
        for fault in self.script:
            world.call_at(fault.at_s, self.begin, fault)
        await world.until(lambda: world.now_s >= self.until_s, self.until_s, "the end of the faults")
        self.heal()
        await self.settle()
        await self.end()
        world.check()

    def look(self) -> None:
        if self.process.runs and self.watch is not None:
            self.watch.look()
            self.world.call_at(self.world.now_s + self.interval_s / LOOKS, self.look)

    def heal(self) -> None:
        self.faulty = False
        self.windows.clear()
        self.scene.doomed.clear()
        self.world.trace.add(self.world.now_s, "fault", "world", "is healed")
        if not self.wants_pacing:  # what was ordered at this very instant is not in the config yet
            self.update({"backpressure_enable": True})

    async def settle(self) -> None:
        """Within the bound all is over, and stays so."""
        watch, world = self.watch, self.world
        assert watch is not None
        healed_s = world.now_s
        watch.took_s = max(
            [watch.took_s] + [stint.takes_s for load in self.scene.loads.values() for stint in load.stints]
        )
        bound_s = watch.release_s
        try:
            await world.until(lambda: not watch.unsettled or bool(world.problems), bound_s, "the release")
        except TimeoutError:
            world.problem(f"{bound_s / self.interval_s:.0f} check intervals after the last fault {watch.unsettled}")
        self.settled_s = world.now_s - healed_s

    async def end(self) -> None:
        """Nothing more is offered; all is acked, the backpressure monitor sleeps, nothing is left."""
        world, watch = self.world, self.watch
        assert watch is not None
        for demand in self.scene.demands.values():
            demand.end()
        if not world.problems:
            try:
                await world.until(lambda: not self.open, watch.starve_s, "the last ack")
            except TimeoutError:
                world.problem(f"{watch.starve_s:.1f} s after the last tuple was offered {self.open} are not acked")
        if not world.problems:
            await asyncio.sleep(watch.lease_s + watch.period_s + 3 * watch.interval_s)
            task_set = self.running._task_set
            if watch.unsettled:
                world.problem(f"all was over, and then it was not any more: {watch.unsettled}")
            if task_set.tasks.env.sampling:
                world.problem("nothing moves, and the backpressure monitor does not sleep")
            for problem in remains(self.running):
                world.problem(problem)
        if self.process.alive:
            self.process.loop.call_soon(self.ending.set)
            await world.until(lambda: not self.process.alive, 60.0, "the end of the process")

    @property
    def open(self) -> int:
        return sum(len(demand.open) + len(demand.again) for demand in self.scene.demands.values())

    # -- faults ------------------------------------------------------------------------------------------------------

    def rewire(self) -> None:
        mailboxes, windows = self.mailboxes, self.windows
        if mailboxes is not None:
            mailboxes.loss, mailboxes.repeat = windows.worst("loss"), windows.worst("repeat")
            mailboxes.late_s = windows.worst("late")
            mailboxes.late = 0.4 if mailboxes.late_s else 0.0

    def begin(self, fault: Fault) -> None:
        watch, mailboxes = self.watch, self.mailboxes
        if not self.faulty or watch is None or mailboxes is None or not self.process.runs:
            return
        mailboxes.harmed_s = max(mailboxes.harmed_s, self.world.now_s)
        if fault.kind in ("loss", "repeat", "late"):
            self.windows.open(fault)
            watch.took_s = max(watch.took_s, fault.amount if fault.kind == "late" else 0.0)
        elif fault.kind == "lull":
            for demand in self.scene.demands.values():
                demand.rests_until_s = self.world.now_s + fault.for_s
        elif fault.kind == "update":
            self.change(fault)
        elif fault.kind == "off":
            mailboxes.on_order = lambda: self.switch_off(fault)
        else:
            self.kill(fault.kind, watch)

    def kill(self, role: str, watch: Watch) -> None:
        task_set = self.running._task_set
        self.world.trace.add(self.world.now_s, "fault", role, "dies")
        if role == "bolt":
            flagged = [bolt for bolt in watch.bolts if bolt.sampling.sampler.flagged] or watch.bolts
            self.scene.doomed.add(self.chance.choice(flagged).task.task_id)
            return
        if role == "monitor":
            watch.monitors_s.append(self.world.now_s)
        if role == "spout":
            box = task_set.tasks.mailboxes[self.chance.choice(watch.spouts).task.task_id]
        else:
            box = (
                task_set.tasks.mailboxes[task_set.tasks.plan.master]
                if role == "master"
                else task_set.tasks.monitor.mailbox
            )
        self.process.loop.call_soon(box.post, UnknownMessage())

    def switch_off(self, fault: Fault) -> float:
        """An order is under way: in how many seconds does it come?"""
        if self.faulty:
            self.begin(replace(fault, kind="update", amount=0.0))
        return fault.amount

    def change(self, fault: Fault) -> None:
        """Other marks; or off for a while, and on again with others."""
        changes = marks(self.chance)
        if self._base.mailbox_target_ms:
            changes["mailbox_target_ms"] = self.chance.choice((0, 50, 200, 200))
        if fault.amount < 0.5:
            self.update({"backpressure_enable": False})
            self.world.call_at(self.world.now_s + fault.for_s, self.begin, replace(fault, amount=1.0))
        else:
            self.update({"backpressure_enable": True, **changes})

    def update(self, changes: dict[str, Any]) -> None:
        self.world.trace.add(self.world.now_s, "fault", "update", repr(changes))
        self.wants_pacing = bool(changes["backpressure_enable"])
        self.updates.append(changes)
        self.process.spawn(self._update(), "update", background=True)

    async def _update(self) -> None:
        # Tasks that are spawned at one instant run in any order; settings are changed in the order of the calls.
        config: Config = await self.running.update(self.updates.popleft())
        assert self.watch is not None
        self.watch.changed(Settings.of(config))


def script(
    chance: random.Random, kinds: Collection[str], begin_s: float, intervals: int, interval_s: float
) -> list[Fault]:
    """Of some kinds, at some times."""
    enabled = [kind for kind in kinds if chance.random() < 0.55]
    found: list[Fault] = []
    for kind in enabled:
        for _ in range(chance.randint(1, max(1, round(MOST[kind] * intervals / 75)))):
            at_s = begin_s + chance.random() * intervals * interval_s
            if found and chance.random() < 0.4:  # soon after another
                at_s = min(
                    chance.choice(found).at_s + interval_s * 5 * chance.random(), begin_s + intervals * interval_s
                )
            for_s = interval_s * 2 * 10 ** chance.random()
            amount = chance.random()
            if kind == "loss":
                amount = chance.choice((0.1, 1 / 3, 0.7, 1.0))
            elif kind == "late":
                amount = interval_s * 0.2 * 40 ** chance.random()
            found.append(Fault(round(at_s, 6), kind, amount, round(for_s, 6)))
    return sorted(found, key=lambda fault: fault.at_s)


def switches(chance: random.Random, begin_s: float, until_s: float, interval_s: float) -> list[Fault]:
    """Mostly at the first order, which comes `amount` seconds late. Other faults draw what they would without it."""
    if chance.random() >= OFF_SHARE:
        return []
    at_s = begin_s + (until_s - begin_s) * chance.choice((0.0, 0.0, chance.random()))
    return [Fault(round(at_s, 6), "off", round(interval_s * chance.random(), 6), round(interval_s * 5, 6))]
