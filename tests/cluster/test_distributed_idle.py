"""Is a spread topology idle? Worlds that try to fool the answer: it never says yes while something moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.distributed_idle import DistributedIdleDetector, IdleReport

NAMES = ("a", "b", "c")


@dataclass
class Worker:
    """A worker of a small world. `work`: how many steps it has left to do; `unasked`: what its spout may yet begin."""

    name: str
    incarnation: int = 1
    work: int = 0
    activity: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)

    def report(self) -> IdleReport:
        return IdleReport(
            self.name, self.incarnation, self.work == 0, self.activity, dict(self.sent), dict(self.received)
        )


class World:
    """Workers, and messages under way. Chance says what happens next."""

    def __init__(self) -> None:
        self.workers = {name: Worker(name) for name in NAMES}
        self.under_way: list[tuple[str, str]] = []

    @property
    def still(self) -> bool:
        return not self.under_way and all(worker.work == 0 for worker in self.workers.values())

    def step(self, data: st.DataObject) -> None:
        busy = [name for name, worker in self.workers.items() if worker.work]
        moves = ["arrive"] * bool(self.under_way) + [*(["work"] * bool(busy)), "wake", "die"]
        match data.draw(st.sampled_from(moves)):
            case "arrive":
                source, target = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
                worker = self.workers[target]
                worker.received[source] += 1
                worker.activity += 1
                worker.work += data.draw(st.integers(0, 2))
            case "work":
                worker = self.workers[data.draw(st.sampled_from(busy))]
                worker.work -= 1
                worker.activity += 1
                target = data.draw(st.sampled_from(NAMES))
                if target != worker.name:
                    worker.sent[target] += 1
                    self.under_way.append((worker.name, target))
            case "wake":
                worker = self.workers[data.draw(st.sampled_from(NAMES))]
                worker.work += 1
                worker.activity += 1
            case "die":
                self.die(data.draw(st.sampled_from(NAMES)))

    def die(self, name: str) -> None:
        """Its peers learn of it at once: they forget their counts with it, and messages under way are lost."""
        self.under_way = [way for way in self.under_way if name not in way]
        self.workers[name] = Worker(name, incarnation=self.workers[name].incarnation + 1)
        for worker in self.workers.values():
            worker.sent.pop(name, None)
            worker.received.pop(name, None)


@given(st.data())
def test_a_topology_is_never_idle_while_messages_are_under_way(data: st.DataObject) -> None:
    world = World()
    machine = DistributedIdleDetector(NAMES)
    was_still = False
    for _ in range(data.draw(st.integers(1, 6))):
        reports = []
        for name in data.draw(st.permutations(NAMES)):
            for _ in range(data.draw(st.integers(0, 2))):
                world.step(data)
            reports.append(world.workers[name].report())
        if machine.round(reports):
            assert was_still, "between the rounds something moved"
        was_still = world.still


def test_a_topology_is_idle_when_no_message_is_under_way() -> None:
    world = World()
    world.workers["a"].sent["b"] += 3
    world.workers["b"].received["a"] += 3
    machine = DistributedIdleDetector(NAMES)
    reports = [worker.report() for worker in world.workers.values()]
    assert not machine.round(reports)
    assert machine.round(reports)


def test_a_worker_that_is_missing_or_busy_or_has_messages_under_way_means_not_idle() -> None:
    quiet = [IdleReport(name, 1, quiet=True) for name in NAMES]
    for reports in (
        quiet[:2],
        [*quiet[:2], IdleReport("c", 1, quiet=False)],
        [*quiet[:2], IdleReport("c", 1, quiet=True, sent={"a": 1})],
        [*quiet[:2], IdleReport("c", 1, quiet=True, received={"a": 1})],
        [*quiet[:2], IdleReport("c", 1, quiet=True, sent={"lost": 1})],
        [*quiet[:2], IdleReport("c", 1, quiet=True, received={"lost": 1})],
    ):
        machine = DistributedIdleDetector(NAMES)
        assert not machine.round(reports)
        assert not machine.round(reports)


def test_a_new_process_or_any_activity_is_a_change() -> None:
    quiet = [IdleReport(name, 1, quiet=True) for name in NAMES]
    for changed in (IdleReport("c", 2, quiet=True), IdleReport("c", 1, quiet=True, activity=1)):
        machine = DistributedIdleDetector(NAMES)
        machine.round(quiet)
        assert not machine.round([*quiet[:2], changed])
        assert machine.round([*quiet[:2], changed])


def test_a_worker_that_is_lost_and_exchanged_nothing_makes_no_difference() -> None:
    quiet = [IdleReport(name, 1, quiet=True, sent={"lost": 0}, received={"lost": 0, "a": 0}) for name in NAMES]
    machine = DistributedIdleDetector(NAMES)
    assert [machine.round(quiet), machine.round(quiet)] == [False, True]
