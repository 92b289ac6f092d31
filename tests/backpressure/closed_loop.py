"""The whole loop without a loop: spouts, mailboxes and bolts as flows in steps of 5 ms, and the real machines.

What a bolt takes per tuple is given by a function of time and task. A spout could emit ten times as fast as its bolt's
tasks can bear. Mailboxes have a gate with marks, as they really have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiostorm.backpressure import (
    Clear,
    Coordinator,
    Graph,
    Order,
    Readings,
    Sample,
    Sampler,
    Settings,
    SpoutPace,
    SpoutReading,
)
from aiostorm.backpressure.messages import BoltReading

STEP_S = 0.005
CAPACITY = 1024


@dataclass(frozen=True, slots=True)
class Second:
    """The measurements of one interval: rates in tuples a second."""

    at_s: float
    emitted: float
    done: float
    fill: float
    wait_us: int
    state: str


class _Bolt:
    def __init__(self, task: int, settings: Settings) -> None:
        self.task = task
        self.sampler = Sampler(settings)
        self.fill = self.done = self.spent_s = 0.0
        self.open = True
        self.dry = False

    def work(self, takes_s: float) -> None:
        most = STEP_S / takes_s
        self.dry = self.dry or self.fill < most
        count = min(self.fill, most)
        self.fill -= count
        self.done += count
        self.spent_s += count * takes_s
        self.open = self.open or self.fill <= 0.2 * CAPACITY

    def take(self, weight: float) -> None:
        self.fill += weight
        self.open = self.fill <= 0.8 * CAPACITY

    def reading(self, now_s: float) -> BoltReading:
        sampler, fill = self.sampler, int(self.fill)
        sampler.sample(Sample(fill, CAPACITY, not self.open, int(self.done), self.spent_s, self.dry), now_s)
        self.dry = False
        judged = sampler.flagged, sampler.verdict, sampler.step, sampler.busy
        since = sampler.load, sampler.starved, sampler.blocks
        return BoltReading(self.task, fill, CAPACITY, int(self.done), *judged, *since)


class _Spout:
    def __init__(self, task: int, needs_s: float) -> None:
        self.task = task
        self.pace = SpoutPace()
        self.emitted = 0
        self._needs_s = needs_s
        self._free_s = 0.0

    def emit(self, now_s: float, takes: Callable[[], bool]) -> None:
        pacer = self.pace.pacer
        while self._free_s <= now_s:
            delay_s = pacer.delay_s(now_s)
            if delay_s:
                pacer.delayed_s += min(delay_s, STEP_S)
                self._free_s = max(self._free_s, now_s)
                return
            if not takes():
                self._free_s = now_s
                return
            self.emitted += 1
            self._free_s += self._needs_s
            pacer.sent(1, now_s)


def run(
    takes_s: Callable[[float, int], float],
    *,
    bolts: int = 1,
    spouts: int = 1,
    each: float = 1.0,
    needs_s: float,
    lasting_s: float = 80.0,
    settings: Settings | None = None,
) -> list[Second]:
    """The measurements of each interval. `each`: tuples at the bolt for one that is emitted."""
    settings = settings or Settings()
    feeding = [_Spout(task + 1, needs_s) for task in range(spouts)]
    fed = [_Bolt(spouts + task + 1, settings) for task in range(bolts)]
    tasks = {"spout": [spout.task for spout in feeding], "bolt": [bolt.task for bolt in fed]}
    sources = {"bolt": frozenset({"spout"})}
    master = Coordinator(Graph(sources, sources, frozenset({"bolt"})), tasks, settings, 1)
    places = {actor.task: actor for actor in (*feeding, *fed)}
    found: list[Second] = []
    turn, now_s, emitted, done = 0, 0.0, 0, 0.0
    due_s = {"monitor": 0.3 * settings.interval_s, "master": settings.interval_s}

    def takes() -> bool:
        nonlocal turn
        free = [bolt for bolt in fed if bolt.open]
        if free:
            turn += 1
            free[turn % len(free)].take(each)
        return bool(free)

    def obey(orders: list[Order]) -> None:
        for task, order in orders:
            place = places[task]
            if isinstance(order, Clear):
                assert isinstance(place, _Bolt)
                place.sampler.clear()
            else:
                assert isinstance(place, _Spout)
                place.pace.order(order, now_s)

    while now_s < lasting_s:
        now_s += STEP_S
        for bolt in fed:
            bolt.work(takes_s(now_s, bolt.task - spouts - 1))
        for spout in feeding:
            spout.emit(now_s, takes)
        if now_s >= due_s["monitor"]:
            due_s["monitor"] += settings.interval_s
            read = tuple(bolt.reading(now_s) for bolt in fed)
            waits = tuple(SpoutReading(s.task, s.emitted, s.pace.wait_us, s.pace.epoch, s.pace.step) for s in feeding)
            obey(master.on_readings(Readings(1, now_s, read, waits), now_s, now_s))
            counts = sum(s.emitted for s in feeding), sum(b.done for b in fed)
            rates = ((counts[0] - emitted) / settings.interval_s, (counts[1] - done) / settings.interval_s)
            emitted, done = counts
            fill = max(bolt.fill for bolt in fed) / CAPACITY
            found.append(Second(now_s, *rates, fill, feeding[0].pace.wait_us, master.log.state))
        if now_s >= due_s["master"]:
            due_s["master"] += settings.interval_s
            obey(master.tick(now_s, now_s))
    return found
