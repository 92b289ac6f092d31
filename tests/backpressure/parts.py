"""Coordinators, and the readings that they receive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiostorm.backpressure import (
    BoltReading,
    Clear,
    Coordinator,
    Graph,
    Order,
    Pace,
    PaceChange,
    PressureVerdict,
    Readings,
    Settings,
    SpoutReading,
)

TASKS = {"a": (1, 2), "b": (3,), "left": (4, 5, 6, 7), "right": (8,), "last": (9, 10)}
SOURCES = {"left": frozenset("a"), "right": frozenset("b"), "last": frozenset("ab")}
"""a ─► left ─► last ◄─ right ◄─ b"""


class World:
    """A coordinator, its clock, and the readings of its tasks. Each second all tasks report."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        sources: Mapping[str, frozenset[str]] = SOURCES,
        tasks: Mapping[str, tuple[int, ...]] = TASKS,
    ) -> None:
        self.settings = settings or Settings()
        self._made = Graph(sources, sources), tasks
        self.now_s = 1000.0
        self.epoch = 0
        self.incarnation = 1
        self.bolts: dict[int, BoltReading] = {}
        self.spouts: dict[int, SpoutReading] = {}
        self.silent: set[int] = set()
        self.coordinator: Coordinator
        self.restart()
        for component, numbers in tasks.items():
            for task in numbers:
                if component in sources:
                    self.bolts[task] = BoltReading(task, 0, 100, 0)
                else:
                    self.spouts[task] = SpoutReading(task, 0)

    def restart(self) -> None:
        """Another coordinator replaces it."""
        self.epoch += 1
        self.coordinator = Coordinator(*self._made, self.settings, self.epoch, self.now_s)

    def bolt(self, number: int, **changes: object) -> None:
        """A bolt task reports something else from now on."""
        known = self.bolts[number]
        self.bolts[number] = BoltReading(**{name: getattr(known, name) for name in known.__slots__} | changes)  # type: ignore[arg-type]

    def spout(self, number: int, **changes: object) -> None:
        """A spout task reports something else from now on."""
        known = self.spouts[number]
        self.spouts[number] = SpoutReading(**{name: getattr(known, name) for name in known.__slots__} | changes)  # type: ignore[arg-type]

    def blocked(self, *tasks: int, fill: int = 90) -> None:
        """A period of these tasks has ended BLOCKED."""
        for task in tasks:
            before = self.bolts[task]
            step, blocks = before.step + 1, before.blocks + 1
            self.bolt(task, flagged=True, verdict=PressureVerdict.BLOCKED, step=step, blocks=blocks, fill=fill)

    def relieved(self, *tasks: int, busy: float = 0.5) -> None:
        """A period of these tasks has ended RELIEVED."""
        for task in tasks:
            step = self.bolts[task].step + 1
            self.bolt(
                task,
                flagged=True,
                verdict=PressureVerdict.RELIEVED,
                step=step,
                blocks=0,
                fill=0,
                busy=busy,
                starved=True,
            )

    def flow(self, task: int, rate: int) -> None:
        """A task executes (or emits) `rate` tuples in this second."""
        if task in self.bolts:
            self.bolt(task, executed=self.bolts[task].executed + rate)
        else:
            self.spout(task, emitted=self.spouts[task].emitted + rate)

    def second(self, seconds: int = 1) -> list[Order]:
        """All tasks that are not silent report; an interval is over. Returns the orders of the last second."""
        orders: list[Order] = []
        for _ in range(seconds):
            self.now_s += 1.0
            bolts = tuple(reading for task, reading in self.bolts.items() if task not in self.silent)
            spouts = tuple(reading for task, reading in self.spouts.items() if task not in self.silent)
            readings = Readings(self.incarnation, self.now_s, bolts, spouts)
            orders = self.coordinator.on_readings(readings, self.now_s, self.now_s)
            orders += self.coordinator.tick(self.now_s, self.now_s)
        return orders

    def obey(self, orders: Iterable[Order], wait_us: int | None = None) -> None:
        """The spouts apply their orders, and wait `wait_us` from then on (None: as before)."""
        for task, order in orders:
            if isinstance(order, Pace):
                wait = self.spouts[task].wait_us if wait_us is None else wait_us
                self.spout(task, epoch=order.epoch, step=order.step, wait_us=wait)
            else:
                self.bolt(task, flagged=False, verdict=PressureVerdict.NONE, blocks=0)


def changes(orders: Iterable[Order]) -> dict[int, PaceChange]:
    """Task → the change of its pace."""
    return {task: order.change for task, order in orders if isinstance(order, Pace)}


def cleared(orders: Iterable[Order]) -> set[int]:
    """The tasks that receive Clear."""
    return {task for task, order in orders if isinstance(order, Clear)}
