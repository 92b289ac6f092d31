"""A topology around one bolt with windows: feeders, perhaps a bolt between, and recorders behind it."""

from __future__ import annotations

from typing import Any

from aiostorm import Fields, TopologyBuilder, bolt
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import LatePolicy, Sum, Tumbling, Window, WindowedBolt

FIELDS = Fields("user", "at", "amount")


@bolt(outputs=("user", "at", "amount"))
def as_it_is(user: str, at: int, amount: int) -> tuple[str, int, int]:
    return user, at, amount


class Rig:
    """`spouts` feeders, perhaps a bolt, windows, and a recorder behind their default and late streams."""

    def __init__(self, windowed: Any, *, spouts: int = 1, between: int = 0, parallelism: int = 1) -> None:
        self.feeders = [FeederSpout(FIELDS) for _ in range(spouts)]
        self.sink, self.late = Recorder(), Recorder()
        builder = TopologyBuilder()
        sources = []
        for n, feeder in enumerate(self.feeders):
            builder.set_spout(f"spout{n}", feeder)
            sources.append(f"spout{n}")
        if between:
            declarer = builder.set_bolt("between", as_it_is, parallelism=between)
            for source in sources:
                declarer.shuffle_grouping(source)
            sources = ["between"]
        declarer = builder.set_bolt("windows", windowed, parallelism=parallelism)
        for source in sources:
            declarer.fields_grouping(source, "user")
        builder.set_bolt("sink", self.sink).shuffle_grouping("windows")
        if windowed.late is LatePolicy.STREAM:
            builder.set_bolt("late", self.late).shuffle_grouping("windows", stream="late")
        self.topology = builder.create_topology()

    async def feed(self, *rows: tuple[str, int, int], to: int = 0) -> None:
        for row in rows:
            await self.feeders[to].feed(row)

    def finish(self) -> None:
        for feeder in self.feeders:
            feeder.finish()

    @property
    def acked(self) -> int:
        return sum(len(feeder.acked) for feeder in self.feeders)

    @property
    def failed(self) -> int:
        return sum(len(feeder.failed) for feeder in self.feeders)


def sums(windows: Any = None, **settings: Any) -> WindowedBolt:
    settings.setdefault("timestamp", "at")
    return WindowedBolt(windows or Tumbling(1_000), Sum("amount"), key="user", **settings)


class Retracting(WindowedBolt):
    windows = Tumbling(1_000)
    key = "user"
    timestamp = "at"
    late = LatePolicy.RETRACT
    outputs = Fields("user", "amount", "start")

    def init_state(self, window: Window) -> int:
        return 0

    def execute(self, tup: Any, state: int, window: Window) -> int:
        return state + int(tup["amount"])

    def purge(self, state: int, window: Window, key: Any = None) -> tuple[Any, ...]:
        return key, state, window.start

    def retract(self, tup: Any, windows: Any) -> list[tuple[Any, ...]]:
        if tup["amount"] < 0:
            raise ValueError("nothing to take back")
        return [(tup["user"], tup["amount"], -1 - window.start) for window in windows]
