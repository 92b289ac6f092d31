"""Shapes: the topologies of the world of windows, drawn from the seed.

    logs ─► spouts ─► (pass) ─► windows ─ results ─► (second) ─ results ─► sink
                          │         └─ late ────────────────────────────────►
                          ├────► (buffered, mixed) ─ results, late ─────────►
             two spouts ──┴────► (join) ─ joined rows, late ────────────────►

1. A shape is *tidy* if nothing may be late, whatever the network and the processes do: no row is further behind than
   the lag, all input tasks are waited for, and what they say of time is their own.
2. In half of the seeds rows and windows are on a grid: time comes to be exactly where a window ends.
3. In half of the seeds a spout task may have few messages open: where rows are kept, hardly more than windows hold.
4. Rows of one spout task come from one clock: it may be minutes ahead of the others, or one row's may be years ahead.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from aiostorm import Config, Topology, TopologyBuilder
from aiostorm.testing.simulation import World
from aiostorm.windows import (
    Collect,
    JoinKind,
    LatePolicy,
    Mixed,
    Periodic,
    Session,
    Sliding,
    Time,
    Tumbling,
    WatermarkPolicy,
)

from .bolts import (
    RESULTS,
    Buffered,
    Joining,
    Merging,
    MixedRows,
    Pass,
    PassBatch,
    Plain,
    Ready,
    Second,
    Sink,
    pass_function,
)
from .ledger import Ledger, Reader
from .sources import LogSpout, SourceLog, SourceRow
from .watched import reference_of

BEGIN_MS = 1_700_000_000_000
LONG_S = 1000.0
"""A message timeout that is never needed."""

KEYS = ("a", "a", "a", "b", "c", "d")


@dataclass(frozen=True)
class Shape:
    """What was drawn. `ends`: do all spouts end? `by_clock`: are its windows by processing time?"""

    topology: Topology
    config: Config
    logs: list[SourceLog]
    rows: list[SourceRow]
    windows: Any
    tidy: bool
    ends: bool
    by_clock: bool
    load_s: float


class Drawing:
    """A shape in the making. `calm`: no worker will die. (One of three may learn of it late: workers/world.py.)"""

    def __init__(self, world: World, ledger: Ledger, load_s: float, workers: int, *, calm: bool) -> None:
        self.world = world
        rng = self.rng = world.chance.stream("windows")
        self.begin_s, self.load_s = world.now_s, load_s
        self.ledger = ledger
        self.workers = workers
        ledger.times_out = workers > 2 and not calm
        self.speed = rng.choice((0.5, 1.0, 20.0))
        self.span_ms = int(load_s * 1000 * self.speed)
        self.kept = not ledger.times_out and rng.random() < 0.45
        self.patient = not self.kept and rng.random() < 0.5
        self.ends = self.kept or rng.random() < 0.8
        neat = rng.random() < 0.45
        self.emits_watermarks = rng.random() < 0.4
        self.through = rng.random() < 0.45 and (self.emits_watermarks or not neat)
        # Rows on a grid, of which windows begin and end: now and then a watermark is exactly where one ends.
        self.grid_ms = world.chance.stream("grid").choice((1, max(1, self.span_ms // 120)))
        self.disorder_ms = self.even(rng.choice((0, self.span_ms // 50, self.span_ms // 10)))
        self.behind = not neat and rng.random() < 0.4  # some rows are late
        self.bad = not neat and rng.random() < 0.3
        self.time = Time.EVENT if neat else rng.choice((Time.EVENT,) * 6 + (Time.PROCESSING, Time.INGESTION))
        self.idle_ms = 0 if neat else rng.choice((0, 0, 400, 1500))
        self.policy = WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP
        if not neat and rng.random() < 0.25:
            self.policy = rng.choice((*WatermarkPolicy,))
        self.tidy = (
            not (self.behind or self.bad or self.idle_ms)
            and (self.emits_watermarks or not self.through)
            and self.time is Time.EVENT
            and self.policy is WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP
        )
        self.builder = TopologyBuilder()
        self.logs: list[SourceLog] = []
        self.rows: list[SourceRow] = []
        self.results: list[tuple[str, bool]] = []  # component, and has it a late stream?
        self.sources: list[str] = []
        self.displaced = 0
        """So many rows may be kept until newer ones are there, whatever the time."""

    def shape(self) -> Shape:
        """All of it."""
        inputs = self.spouts()
        if self.through:
            inputs = self.passing(inputs)
        windows = self.windows()
        self.incremental(windows, inputs)
        if self.rng.random() < 0.4:
            self.second()
        chance = self.world.chance.stream("kept")
        if self.kept:
            self.buffered(windows, inputs)
            if chance.random() < 0.6:
                self.mixed(chance, inputs)
            if len(self.sources) == 2 and chance.random() < 0.8:
                self.join(chance, windows)
        sink = self.builder.set_bolt("sink", Sink(self.ledger))
        for name, late in self.results:
            sink.global_grouping(name)
            if late:
                sink.global_grouping(name, stream="late")
        config = self.config().merge(self.few(chance, windows))
        topology = self.builder.create_topology(config=config)
        by_clock = self.time is Time.PROCESSING
        return Shape(topology, config, self.logs, self.rows, windows, self.tidy, self.ends, by_clock, self.load_s)

    # -- what rows come from -----------------------------------------------------------------------------------------

    def spouts(self) -> list[str]:
        """One or two, with one or two tasks; a log for each of these."""
        rng, count = self.rng, self.rng.choice((24, 60, 120))
        inputs = [f"s{i}" for i in range(rng.choice((1, 2)))]
        tasks = [rng.choice((1, 1, 2)) for _ in inputs]
        disorder_ms = self.disorder_ms if self.emits_watermarks else None
        for name, parallelism in zip(inputs, tasks, strict=True):
            logs = [self.log(count // sum(tasks)) for _ in range(parallelism)]
            spout = LogSpout(self.ledger, name, logs, patient=self.patient, disorder_ms=disorder_ms)
            self.builder.set_spout(name, spout, parallelism)
            self.logs += logs
        self.sources = list(inputs)
        return inputs

    def log(self, count: int) -> SourceLog:
        """Rows of one clock, in bursts or with a gap; perhaps it ends early. One in it may be of a bad clock."""
        rng, rows = self.rng, list[SourceRow]()
        skew_ms = rng.choice((0, 0, -self.span_ms // 5, self.span_ms // 5))
        until = rng.choice((1.0, 1.0, 0.6, 0.3, 0.1))
        gap = rng.choice((None, None, (0.2, 0.7)))
        if self.rows and rng.random() < 0.15:
            count = 0
        moments = sorted(rng.random() * until for _ in range(count))
        if gap is not None:
            moments = [moment for moment in moments if not gap[0] < moment < gap[1]]
        at_once = rng.choice((None, 8))  # they are offered as they happen, or some at once, later
        bad = rng.randrange(len(moments)) if moments and self.bad and rng.random() < 0.5 else None
        for n, moment in enumerate(moments):
            at_ms = BEGIN_MS + int(moment * self.span_ms) + skew_ms - rng.randint(0, self.disorder_ms)
            if self.behind and rng.random() < 0.15:
                at_ms -= int(self.span_ms * rng.random())
            if n == bad:
                at_ms += 10**9
            at_ms = self.even(at_ms)
            offered = moment if at_once is None else (int(moment * at_once) + 1) / at_once
            offered_s = self.begin_s + offered * self.load_s
            rows.append(SourceRow(len(self.rows) + n, rng.choice(KEYS), at_ms, offered_s, bad=n == bad))
        self.rows += rows
        return SourceLog(rows, self.ends or rng.random() < 0.5)

    def even(self, ms: int) -> int:
        """On the grid."""
        return ms - ms % self.grid_ms

    def passing(self, inputs: list[str]) -> list[str]:
        """A bolt between."""
        kind = self.rng.choice((Pass, PassBatch, pass_function))
        declarer = self.builder.set_bolt("pass", kind(), self.rng.choice((1, 2)))
        for name in inputs:
            _subscribe(declarer, self.rng.choice(("shuffle", "fields", "local")), name)
        return ["pass"]

    # -- windows -----------------------------------------------------------------------------------------------------

    def windows(self) -> Any:
        """Tumbling, sliding or sessions."""
        rng, time = self.rng, self.time
        span_ms = self.span_ms if time is Time.EVENT else int(self.load_s * 1000)
        size_ms = max(2, self.even(int(span_ms / rng.choice((2.5, 6, 15)))))
        self.size_ms = size_ms
        kind = rng.choice(("tumbling", "sliding", "sliding", "session"))
        self.lateness_ms = rng.choice((0, 0, self.span_ms // 20))
        self.settings: dict[str, Any] = {
            "key": "key",
            "timestamp": "at" if time is Time.EVENT else None,
            "lag_ms": 0 if self.emits_watermarks else self.disorder_ms,
            "interval_ms": rng.choice((50, 200, 700)),
            "max_advance_ms": max(1, self.span_ms // 20) if self.bad else 0,
            "idle_timeout_ms": self.idle_ms,
            "policy": self.policy,
            "allowed_lateness_ms": self.lateness_ms,
        }
        if time is Time.EVENT and not self.emits_watermarks and rng.random() < 0.4:  # each task looks at its own rows
            made = self.settings["lag_ms"], self.settings["interval_ms"], self.settings["max_advance_ms"] or None
            self.settings["generator"] = partial(Periodic, *made)
        if kind == "session" and time is not Time.INGESTION:
            return Session(max(1, self.grid_ms, self.even(size_ms // 8)), time=time)
        if kind == "tumbling":
            return Tumbling(size_ms, time=time)
        return Sliding(size_ms, max(1, size_ms // rng.choice((2, 3, 4))), rng.choice((0, 7)), time=time)

    def incremental(self, windows: Any, inputs: list[str]) -> None:
        """Ready made, or a class of the user's with a merge or without."""
        rng = self.rng
        style: Any = rng.choice((Ready, Merging) if isinstance(windows, Session) else (Ready, Plain, Merging))
        late = rng.choice((LatePolicy.STREAM, LatePolicy.STREAM, LatePolicy.DROP))
        if style is not Ready and rng.random() < 0.2:
            late = LatePolicy.RETRACT
        of: dict[str, Any] = {"aggregate": Collect("n"), "outputs": RESULTS} if style is Ready else {}
        bolt = style(windows, late=late, **self.settings, **of)
        self.add("windows", bolt, rng.choice((1, 1, 2, 3)), inputs, tidy=self.tidy)
        self.ledger.readers["windows"] = Reader(late is LatePolicy.STREAM, keeps=False)

    def second(self) -> None:
        """Windows over the results of windows: none of these may come late, whatever the first ones are."""
        over: Any = Second(
            Tumbling(max(1, int(self.span_ms / self.rng.choice((2.0, 4.0))))),
            Collect(),
            key="key",
            timestamp=_last_moment,
            idle_timeout_ms=0,
            max_advance_ms=0,
            lag_ms=0,
            interval_ms=self.rng.choice((50, 200)),
            late=LatePolicy.STREAM,
            outputs=RESULTS,
        )
        self.add("second", over, self.rng.choice((1, 2)), ["windows"], tidy=True)

    def buffered(self, windows: Any, inputs: list[str]) -> None:
        """Windows that keep their tuples."""
        bolt = Buffered(windows, late=LatePolicy.STREAM, **self.settings)
        self.add("buffered", bolt, self.rng.choice((1, 2)), inputs, tidy=self.tidy)
        self.ledger.readers["buffered"] = Reader(late_stream=True, keeps=True)

    def mixed(self, chance: random.Random, inputs: list[str]) -> None:
        """The last so many rows, each so many milliseconds; or the reverse."""
        size, span_ms = chance.choice((1, 2, 5)), self.size_ms
        windows = Mixed(size=size, slide_ms=span_ms, offset_ms=chance.choice((0, 7)), time=self.time)
        if chance.random() < 0.5:
            windows = Mixed(size_ms=span_ms, slide=size, time=self.time)
        else:
            self.displaced = size * len(set(KEYS))
        bolt = MixedRows(windows, late=LatePolicy.STREAM, **self.settings)
        self.add("mixed", bolt, chance.choice((1, 2)), inputs, tidy=self.tidy)
        self.ledger.readers["mixed"] = Reader(late_stream=True, keeps=True, displaces=True)

    def join(self, chance: random.Random, windows: Any) -> None:
        """Rows of both spouts, in windows that are the others'."""
        kind = chance.choice((*JoinKind,))
        first, second = chance.sample(self.sources, 2)
        settings = {name: value for name, value in self.settings.items() if name != "key"}
        bolt: Any = Joining(first, "key", windows, late=LatePolicy.STREAM, **settings)
        bolt._joined(kind, second, "key", None, None)
        bolt.select(*(f"{source}:{name} as {source}_{name}" for source in (first, second) for name in ("key", "n")))
        bolt.pair = kind, (first, second)
        self.add("join", bolt, chance.choice((1, 2)), self.sources, tidy=self.tidy)
        self.ledger.readers["join"] = Reader(late_stream=True, keeps=True)

    def few(self, chance: random.Random, windows: Any) -> dict[str, Any]:
        """How many messages a spout task may have open: in half of the seeds few, at the grain that is the default.

        Where rows are kept, a spout that goes on brings time on. So one more than it can have in windows that are still
        to fire is enough: of those, the last ones, the lag and what may be late. Where time does not come with its rows
        alone (a clock, a task that looks at its own rows only, sessions without an end) there is no such number.
        """
        if chance.random() < 0.5:
            return {}
        most = chance.choice((1, 2, 5))
        if self.kept:
            own = "generator" in self.settings or (self.through and not self.emits_watermarks)
            if own or self.time is not Time.EVENT or isinstance(windows, Session):
                return {}
            reach_ms = self.size_ms + self.lateness_ms + self.disorder_ms + 1
            times = [sorted(row.at_ms for row in log.rows if not row.bad) for log in self.logs]
            most += max(bisect_right(of, at_ms + reach_ms) - i for of in times or [[]] for i, at_ms in enumerate(of))
            if chance.random() < 0.6:  # all is there at once: then nothing but that number paces the spouts
                for log in self.logs:
                    log.rows[:] = [replace(row, offered_s=self.begin_s) for row in log.rows]
            most += self.displaced + max(sum(row.bad for row in log.rows) for log in self.logs)
        return {"max_spout_pending": most, "acker_tree_max_messages": chance.choice((16, 256, 256))}

    def add(self, name: str, made: Any, parallelism: int, inputs: list[str], *, tidy: bool) -> None:
        """A bolt with windows."""
        made.ledger, made.tidy = self.ledger, tidy
        declarer = self.builder.set_bolt(name, made, parallelism)
        for source in inputs:
            _subscribe(declarer, "fields", source)
        self.results.append((name, made.late is LatePolicy.STREAM))

    def config(self) -> Config:
        """Small mailboxes and turns."""
        rng = self.rng
        return Config(
            workers=self.workers,
            acker_executors=rng.choice((None, 1)),
            mailbox_capacity_tuples=rng.choice((2, 8, 64)),
            turn_max_tuples=rng.choice((1, 4, 256)),
            acker_tree_max_messages=rng.choice((1, 16, 256)),
            max_retries=None if self.patient else 100_000,
            message_timeout_s=10.0 if self.ledger.times_out else LONG_S,
            restart_max=100_000,
            restart_backoff_s=(0, 0.1),
            backpressure_enable=False,
            watermark_idle_timeout_ms=self.idle_ms,
        )


def _last_moment(tup: Any) -> int:
    """Of a result: the last moment of its window. (At its end, the second windows may have closed.)"""
    return int(tup["end"]) - 1


def _subscribe(declarer: Any, kind: str, source: str) -> None:
    if kind == "fields":
        declarer.fields_grouping(source, "key")
    elif kind == "local":
        declarer.local_or_shuffle_grouping(source)
    else:
        declarer.shuffle_grouping(source)


def whole(shape: Shape) -> list[Any]:
    """What the windows of a tidy shape come to: the reference, over all rows, in any order."""
    expected = reference_of(shape.windows, 0)
    expected.add([(row.key, row.at_ms, row.n) for row in shape.rows])
    found: list[Any] = expected.advance(10**17)
    return found
