"""Endpoints: the source and the sink of a topology, which no crash affects.

    source ── rows ──► topology ── rows ──► sink
       ▲ ack, fail ──────┘

1. A source offers its rows over the time of the run, each under its own message id. A failed row is offered again, at
   growing intervals; after a crash all rows are offered again that were not acked. That is what a queue or a log does.
2. A sink has a row as soon as its bolt has executed it. Rows come at least once.
3. What a process does after its death reaches neither.
4. The source detects broken promises of the framework: a message that is settled twice in one attempt, or settled
   though it was not open.

The framework copies a component for each task: the copies share the state of the source that the test has.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from ...topology import (
    DEFAULT_STREAM,
    Bolt,
    BoltCollector,
    Failure,
    Fields,
    Row,
    Spout,
    SpoutCollector,
    Topology,
    TopologyContext,
    Tuple,
)
from ..errors import ScriptError

if TYPE_CHECKING:
    from .world import World

MAX_FAILURES: Final = 50
"""A message that fails more often than this is given up, and the run fails."""


class _SourceState:
    """The rows of a source, and what became of them. Message ids are 0, 1, 2, …"""

    def __init__(self, world: World, name: str, rows: list[Row], max_replays: int | None) -> None:
        self.world = world
        self.name = name
        self.rows = rows
        self.max_replays = max_replays
        self.offers_s = [0.0] * len(rows)
        self.acked: dict[int, float] = {}
        self.failures: dict[int, tuple[int, Failure]] = {}
        """Message → how often it failed, and the last time why."""
        self.given_up: set[int] = set()
        self.emitted: Counter[int] = Counter()
        self.open: set[int] = set()
        self.incarnation = 0
        self.queue: list[tuple[float, int]] = []

    def begin(self, incarnation: int) -> None:
        """A process has begun to read: called by each of its spout tasks, effective once."""
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self.open.clear()
            self.queue = [
                (self.offers_s[i], i) for i in range(len(self.rows)) if i not in self.acked and i not in self.given_up
            ]
            heapq.heapify(self.queue)

    def next_due(self) -> int | None:
        """The next message that is due."""
        queue = self.queue
        if not queue or queue[0][0] > self.world.now_s:
            return None
        message = heapq.heappop(queue)[1]
        self.open.add(message)
        self.emitted[message] += 1
        return message

    def settle(self, message: Any, failure: Failure | None) -> None:
        """The framework has settled a message."""
        process = self.world.current
        if not process.effect():
            return
        if message not in self.open:
            how = "acked" if failure is None else "failed"
            self.world.problem(f"message {message} of {self.name!r} is {how}, but it is not open")
            return
        self.open.discard(message)
        trace, now_s = self.world.trace, self.world.now_s
        if failure is None:
            self.acked[message] = now_s
            trace.add(now_s, "outside", self.name, f"message {message} is acked")
        else:
            before, _ = self.failures.get(message, (0, None))
            self.failures[message] = before + 1, failure
            trace.add(now_s, "outside", self.name, f"message {message} fails: {failure.reason}", detail=failure.error)
            self._offer_again(message, failure)
        process.effect_done()

    def _offer_again(self, message: int, failure: Failure) -> None:
        failures, _ = self.failures[message]
        if self.max_replays is not None and failures > self.max_replays:
            self.given_up.add(message)
        elif failures > MAX_FAILURES:
            self.given_up.add(message)
            self.world.problem(
                f"message {message} {self.rows[message]!r:.100} of {self.name!r} failed {failures} times "
                f"(a row that cannot be processed? then give the source max_replays); the last time: {failure}"
            )
        else:
            heapq.heappush(self.queue, (self.world.now_s + min(5.0, 0.01 * 2 ** min(failures, 20)), message))


class Source(Spout):
    """Made by `simulation.source(rows, "field", …)`: a spout that offers these rows until each is acked."""

    config: ClassVar[Mapping[str, Any]] = {"spout_wait_max_ms": 1000}

    def __init__(self, world: World, name: str, rows: Iterable[Any], fields: Fields, max_replays: int | None) -> None:
        self.outputs = {"default": fields}  # type: ignore[misc]
        self.fields = fields
        checked: list[Row] = []
        for row in rows:
            values = tuple(row) if isinstance(row, tuple | list) else (row,)
            if len(values) != len(fields):
                raise ValueError(f"{row!r:.200} has {len(values)} values; the fields are: {', '.join(fields)}")
            checked.append(values)
        self._state = _SourceState(world, name, checked, max_replays)
        self._collector: SpoutCollector

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A view for one task, on the same state."""
        view = type(self).__new__(type(self))
        view.outputs = self.outputs  # type: ignore[misc]
        view.fields = self.fields
        view._state = self._state
        return view

    @property
    def rows(self) -> list[Row]:
        """What it offers, by message id."""
        return list(self._state.rows)

    @property
    def acked(self) -> set[int]:
        """The message ids that were acked."""
        return set(self._state.acked)

    @property
    def given_up(self) -> set[int]:
        """The message ids that failed more often than `max_replays`."""
        return set(self._state.given_up)

    @property
    def emitted(self) -> dict[int, int]:
        """Message id → how often it was emitted."""
        return dict(self._state.emitted)

    @property
    def failed(self) -> int:
        """How often a message failed, all messages together."""
        return sum(count for count, _ in self._state.failures.values())

    @property
    def last_failure(self) -> dict[int, Failure]:
        """Message id → its last failure."""
        return {message: failure for message, (_, failure) in self._state.failures.items()}

    @property
    def left(self) -> list[int]:
        """The message ids that are neither acked nor given up."""
        state = self._state
        return [i for i in range(len(state.rows)) if i not in state.acked and i not in state.given_up]

    def offer_between(self, begin_s: float, end_s: float) -> None:
        """Spread the rows over this time (true seconds), in order, with gaps and bursts that the seed draws."""
        state = self._state
        chance = state.world.chance.stream(f"offers of {state.name}")
        state.offers_s = sorted(chance.uniform(begin_s, end_s) for _ in state.rows)

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self._collector = collector
        self._state.begin(self._state.world.current.incarnation)

    def next_tuple(self) -> None:
        state = self._state
        if not state.world.current.effect():
            return
        message = state.next_due()
        if message is not None:
            self._collector.emit(state.rows[message], message_id=message)

    def ack(self, message_id: Any) -> None:
        self._state.settle(message_id, None)

    def fail(self, message_id: Any, failure: Failure) -> None:
        self._state.settle(message_id, failure)


class Sink(Bolt):
    """Made by `simulation.sink()`: a bolt at the end of a stream; `values` are the rows that it has received."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tuples: list[Tuple] = []
        self._collector: BoltCollector

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A view for one task."""
        view = type(self).__new__(type(self))
        view._world, view._tuples = self._world, self._tuples
        return view

    @property
    def tuples(self) -> list[Tuple]:
        """What has come, in that order; replays make rows come again."""
        return list(self._tuples)

    @property
    def values(self) -> list[Row]:
        """The values of what has come."""
        return [tup.values for tup in self._tuples]

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self._collector = collector

    def execute(self, tup: Tuple) -> None:
        process = self._world.current
        if not tup.is_tick and process.effect():
            self._tuples.append(tup)
            self._world.trace.add(self._world.now_s, "outside", "sink", "gets a row", detail=tup.values)
            process.effect_done()
        self._collector.ack(tup)


def replaced(topology: Topology, instead: Mapping[str, Source | Sink]) -> Topology:
    """The topology with sources for some spouts and sinks for some bolts. ScriptError for what does not fit."""
    components = dict(topology.components)
    for name, made in instead.items():
        spec = components.get(name)
        kind = "spout" if isinstance(made, Source) else "bolt"
        if spec is None or spec.kind != kind:
            fit = ", ".join(other.id for other in topology.components.values() if other.kind == kind) or "none"
            raise ScriptError(f"replace: {name!r} is no {kind} of this topology; there are: {fit}")
        if isinstance(made, Source):
            given, declared = made.fields, spec.outputs.get(DEFAULT_STREAM)
            if declared is None or given != declared.fields:
                wanted = ", ".join(declared.fields) if declared is not None else "nothing on the default stream"
                raise ScriptError(f"replace: {name!r} emits {wanted}; the source has: {', '.join(given)}")
        components[name] = replace(spec, template=made, config={**spec.config, **made.config})
    return replace(topology, components=components)
