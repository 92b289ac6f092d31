"""Watch: what must hold at each moment in the world of pressure, whatever is lost or dies.

It looks at mailboxes, samplers and paces as they are, several times in a check interval, and knows nothing of how the
coordinator decides. L: a lease, P: a period, I: a check interval; the longest of them that were set in this run.

1. No mailbox holds more than its capacity (a cycle's may).
2. A spout waits only while it has been given an order within L (a backpressure monitor looks once in I, and one that
   has failed is there again after its backoff; what comes while a spout is started anew it takes after that), and
   never while all is switched off.
3. A spout waits only if a bolt that it feeds was flagged, or had no rest for a lease, within the time that a release
   takes (`release_s`): a bolt that can do no more, and has lost its flag in a restart, is approached in small steps.
4. Unharmed, if enough tasks of a component are found blocked again and again, the spouts that feed it wait.
5. Unharmed, what changes a wait does not accelerate a spout whose bolt is full, nor hold one back whose bolt is empty.
6. A spout that has something to emit is not held while all that it feeds is idle, for longer than `starve_s`.
7. A spout that asks for next to nothing gets it: what it has waits no longer than a bolt hangs, and `starve_s`.
8. Where mailboxes hold a time, one of a bolt that has been as slow for a while takes no more in than belongs to that.
9. While one task can work, something is done: see pressure_progress.py.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import Any

from aiostorm.backpressure import Graph, PressureVerdict, Settings, sources_of
from aiostorm.backpressure.mailbox_limit import LEAST
from aiostorm.backpressure.throttle import MAX_WAIT
from aiostorm.cluster import RunningTopology
from aiostorm.tasks import BoltTask, SpoutTask

from .mailboxes import PressureMailboxes
from .progress import PressureProgress
from .scene import Scene

LOOKS = 2
"""In a check interval."""

KNOWN_S = 5.0
KNOWN_ROWS = 8
"""After so long, and so many rows, a task knows what a row takes now."""


class Watch:
    """Of one running topology."""

    def __init__(
        self, scene: Scene, running: RunningTopology, mailboxes: PressureMailboxes, innocent: str | None
    ) -> None:
        self.scene, self.running, self.mailboxes, self.innocent = scene, running, mailboxes, innocent
        self.world = scene.world
        task_set: Any = running._task_set
        self.task_set = task_set
        self.spouts: list[SpoutTask] = task_set.tasks.spouts
        self.bolts: list[BoltTask] = task_set.tasks.bolts
        self.fed_by = sources_of(running.topology)
        self.balanced = Graph.of(running.topology).balanced
        self.feeds = {spout: [bolt for bolt, by in self.fed_by.items() if spout in by] for spout in scene.demands}
        self.interval_s = self.period_s = 0.0
        self.took_s = 0.0
        """The longest that a tuple may take once begun, and the latest that a message may be."""
        self.changed(Settings.of(running.config))
        self.progress = PressureProgress(scene, self.spouts, self.bolts, self.interval_s)
        begun_s = self.world.now_s
        self.cause_s = dict.fromkeys(self.fed_by, -math.inf)
        """Bolt → when there was last a cause to pace the spouts that feed it."""
        self.rested_s: dict[int, float] = {}
        """Bolt task → when it had nothing to do, the last time."""
        self.down_s: dict[int, float] = {}
        """Spout task → since when it is being started anew."""
        self.alive_s = dict.fromkeys(scene.demands, begun_s)
        self.well_s = dict.fromkeys(self.fed_by, begun_s)
        """Bolt → when it had not enough blocked tasks, the last time."""
        self.fills: dict[str, deque[tuple[float, float] | None]] = {
            spout: deque(maxlen=3 * LOOKS + 1) for spout in scene.demands
        }
        self.blocked: dict[str, tuple[int, int]] = dict.fromkeys(self.fed_by, (0, 0))
        """Bolt → how often its tasks have been judged, and how often of that BLOCKED while no spout waited."""
        self.held: dict[int, int] = {}
        """Bolt task → what was in its mailbox at the last look."""
        self.hop_s = begun_s
        """When the innocent one was held by a full mailbox, the last time."""
        self.monitors_s: list[float] = []
        """When backpressure monitors were made to fail."""
        self.throttled = False
        self.off_s = math.inf

    # -- bounds ------------------------------------------------------------------------------------------------------

    def changed(self, settings: Settings) -> None:
        """These hold from now on."""
        self.aimed_s = self.world.now_s
        self.settings = settings
        self.interval_s = max(self.interval_s, settings.interval_s)
        self.period_s = max(self.period_s, settings.period_s)
        self.off_s = math.inf if settings.enable else self.world.now_s

    @property
    def lease_s(self) -> float:
        return 5 * self.interval_s

    @property
    def release_s(self) -> float:
        """From the last cause until no spout waits: see docs/reliability.md.

        What was said last is forgotten (L), a period that has begun ends, two looks say that the bolt is idle, each
        step halves a wait of MAX_WAIT microseconds at the most, and two more say that it is over.
        """
        halvings = math.ceil(math.log2(MAX_WAIT)) + 1
        return self.took_s + self.lease_s + self.period_s + (2 + halvings + 2) * self.interval_s

    @property
    def starve_s(self) -> float:
        """So long a spout may be held for nothing: a wait as long as a period of each task, until a lease ends."""
        return self.took_s + 2 * self.lease_s + 2 * self.period_s

    @property
    def answer_s(self) -> float:
        """A period after the last order, another that began before it, and the way."""
        return 2 * self.settings.period_s + 3 * self.settings.interval_s

    # -- a look ------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Is all as it should be?"""
        now_s = self.world.now_s
        for task, box in self.task_set.tasks.mailboxes.items():
            if box.gate.fill > box.gate.capacity:
                component = next(bolt.task.component for bolt in self.bolts if bolt.task.task_id == task)
                if component not in self.scene.overfilled:
                    self.world.problem(
                        f"the mailbox of {component}[{task}] holds {box.gate.fill} of {box.gate.capacity}"
                    )
        for bolt in self.bolts:
            self._look_at_mailbox(bolt, now_s)
            works = bool(bolt.execution.working or bolt.taken.segments or bolt.box.gate.fill)
            if works:
                self.scene.progress_s[bolt.task.component] = now_s
            rested_s = self.rested_s.setdefault(bolt.task.task_id, now_s)
            if not works:
                self.rested_s[bolt.task.task_id] = now_s
            if bolt.sampling.sampler.flagged or now_s - rested_s > self.lease_s:
                self.cause_s[bolt.task.component] = now_s
        self.progress.look()
        unharmed = now_s - self.mailboxes.harmed_s > 2 * self.lease_s + 2 * self.period_s
        for spout in self.spouts:
            self._look_at_spout(spout, now_s)
        for component, demand in self.scene.demands.items():
            self._look_for_progress(component, demand.waiting, demand.emptied_s, now_s)
        if self.settings.enable:
            self._look_for_answers(now_s, unharmed)
            self._look_at_trims(now_s, unharmed)
        view = self.running.backpressure()
        self.throttled = self.throttled or view.state == "THROTTLED"

    def _look_at_mailbox(self, bolt: BoltTask, now_s: float) -> None:
        component, fill, target_s = bolt.task.component, bolt.box.gate.fill, self.settings.target_s
        before, self.held[bolt.task.task_id] = self.held.get(bolt.task.task_id, fill), fill
        load = self.scene.loads.get(component)
        if not target_s or load is None or bolt.task.index not in load.slow or component in self.scene.overfilled:
            return
        for stint in load.stints:
            known_s = KNOWN_S + KNOWN_ROWS * stint.takes_s
            if stint.takes_s and not stint.hangs and max(stint.from_s, self.aimed_s) + known_s <= now_s < stint.to_s:
                most = max(LEAST, target_s / stint.takes_s)
                if fill > most and fill > before:
                    self.world.problem(f"the mailbox of {bolt.name} holds {fill}, of which {most:.0f} take its time")

    def _look_at_spout(self, spout: SpoutTask, now_s: float) -> None:
        component, task = spout.task.component, spout.task.task_id
        sent_s = self.mailboxes.sent_s
        if spout.emit_loop.running is None:
            self.down_s.setdefault(task, now_s)
        elif self.down_s.pop(task, math.inf) - self.interval_s < sent_s.get(task, -math.inf):
            sent_s[task] = now_s
        if not spout.pace.wait_us:
            return
        ago_s = now_s - sent_s.get(task, -math.inf)
        died = sum(at_s > now_s - ago_s for at_s in self.monitors_s)  # each looks after its backoff and an interval
        if ago_s > self.lease_s + (1.5 + 3 * died) * self.interval_s:
            self.world.problem(f"{component}[{task}] waits, and has been given no order for {ago_s:.3f} s")
        if now_s > self.off_s:
            self.world.problem(f"{component}[{task}] waits, and backpressure is off for {now_s - self.off_s:.3f} s")
        cause_s = now_s - max(self.cause_s[bolt] for bolt in self.feeds[component])
        if cause_s > self.release_s:
            self.world.problem(f"{component}[{task}] waits, and nothing that it feeds is busy for {cause_s:.3f} s")

    def _look_for_progress(self, component: str, waiting: int, emptied_s: float, now_s: float) -> None:
        """Is a spout held though all that it feeds is idle?"""
        progress_s = max((self.scene.progress_s.get(bolt, 0.0) for bolt in self.feeds[component]), default=0.0)
        idle_s = now_s - max(progress_s, emptied_s, self.alive_s[component])
        if waiting and idle_s > self.starve_s:
            self.world.problem(f"{component} has {waiting} tuples to emit, and all it feeds is idle for {idle_s:.3f} s")
            self.alive_s[component] = now_s
        if component == self.innocent:
            hung_s = self._hung_s(component, now_s)
            if any(spout.outbox.blocked for spout in self.spouts if spout.task.component == component):
                self.hop_s = now_s  # that is no pacing: a mailbox is full
            late_s = now_s - max(emptied_s, hung_s, self.hop_s)
            demand = self.scene.demands[component]
            if waiting > 1 and waiting / demand.rate > self.starve_s and late_s > self.starve_s:
                self.world.problem(f"{component} asks for next to nothing, and {waiting} of its tuples wait")
                self.innocent = None

    def _hung_s(self, component: str, now_s: float) -> float:
        """When something that it feeds hung, the last time."""
        ends = (
            min(stint.to_s, now_s)
            for bolt in self.feeds[component]
            for stint in (self.scene.loads[bolt].stints if bolt in self.scene.loads else ())
            if stint.hangs and stint.from_s <= now_s
        )
        return max(ends, default=-math.inf)

    def _look_for_answers(self, now_s: float, unharmed: bool) -> None:
        for component, spouts in self.fed_by.items():
            tasks = [bolt for bolt in self.bolts if bolt.task.component == component]
            samplers = [bolt.sampling.sampler for bolt in tasks]
            blocked = sum(sampler.flagged and sampler.verdict is PressureVerdict.BLOCKED for sampler in samplers)
            free = [
                s for s in self.spouts if s.task.component in spouts and s.emit_loop.state.active and not s.pace.wait_us
            ]
            judged = sum(sampler.step for sampler in samplers if sampler.verdict is PressureVerdict.BLOCKED)
            before, times = self.blocked[component]
            stays = any(sampler.flagged and sampler.blocks > 1 for sampler in samplers)
            enough = stays or blocked == len(tasks) or blocked / len(tasks) > self.settings.ratio
            if not blocked or not enough or not unharmed or not free:
                self.well_s[component] = now_s
                self.blocked[component] = judged, 0
            elif judged != before:
                self.blocked[component] = judged, times + 1
            elif times >= 3 * len(tasks) and now_s - self.well_s[component] > self.answer_s:
                self.world.problem(
                    f"{blocked} of {len(tasks)} tasks of {component} are blocked since {self.well_s[component]:.3f}"
                    f" s, and {free[0].task.component} waits for nothing"
                )
                self.well_s[component] = now_s

    def _look_at_trims(self, now_s: float, unharmed: bool) -> None:
        middle = (self.settings.low + self.settings.high) / 2
        for component, observed in self.fills.items():
            tasks = [bolt for bolt in self.bolts if bolt.task.component in self.feeds[component]]
            flagged = [bolt for bolt in tasks if bolt.sampling.sampler.flagged]
            shares = [self._fill(bolt) for bolt in flagged]
            large = all(bolt.box.gate.limit >= 20 for bolt in flagged)  # of few, a fill is chance
            observed.append((min(shares), max(shares)) if shares and large else None)
            if not unharmed or len(observed) < 3 * LOOKS + 1 or None in observed:
                continue
            fullest = [pair[1] for pair in observed if pair is not None]
            for spout in self.spouts:
                pace = spout.pace
                if spout.task.component != component or not pace.wait_us:
                    continue
                bent = pace.pacer.wait_s * 1e6 - pace.wait_us
                if min(fullest) > middle + 0.25 and bent < -1e-6:
                    self.world.problem(
                        f"a bolt of {component} is {min(fullest):.0%} full, and its spout is paced faster"
                    )
                if max(fullest) < middle - 0.25 and bent > 1e-6:
                    self.world.problem(
                        f"the bolts of {component} are at most {max(fullest):.0%} full, and their spout is paced slower"
                    )

    def _fill(self, bolt: BoltTask) -> float:
        """Of its mailbox; of all tasks of its component, if what comes goes to whichever has capacity."""
        component = bolt.task.component
        if component not in self.balanced:
            return _share(bolt)
        return statistics.fmean(_share(other) for other in self.bolts if other.task.component == component)

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def unsettled(self) -> str:
        """What is not over; empty if no spout waits, no bolt is flagged and all is NORMAL."""
        for spout in self.spouts:
            if spout.pace.wait_us:
                return f"{spout.task.component}[{spout.task.task_id}] waits {spout.pace.wait_us} us for a tuple"
        for bolt in self.bolts:
            if bolt.sampling.sampler.flagged:
                return f"{bolt.task.component}[{bolt.task.task_id}] is flagged: {bolt.sampling.sampler.verdict.value}"
        state = self.running.backpressure().state
        return "" if state == "NORMAL" else f"it is {state}"


def _share(bolt: BoltTask) -> float:
    return (bolt.box.gate.fill + bolt.taken.rows) / bolt.box.gate.limit
