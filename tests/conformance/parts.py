"""Parts of the scenarios: what Storm's tests are built of, written anew.

Storm: org.apache.storm.testing (TestWordSpout, TestWordCounter, TestGlobalCount, TestAggregatesCounter, IdentityBolt,
NGrouping) and the bolts inside of its integration tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from aiostorm import BasicBolt, Bolt, BoltCollector, Fields, Grouping, GroupingContext, Spout, TopologyBuilder, Tuple
from aiostorm.testing import FeederSpout


class Notes(list[Any]):
    """A list that components share with the test: each task gets a copy of its component, but never of this."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class AckCount:
    """How many messages of a feeder were acked since it was last asked. Storm: AckTrackingFeeder."""

    def __init__(self, feeder: FeederSpout) -> None:
        self._feeder = feeder
        self._seen = 0

    def new(self) -> int:
        """Since the last call."""
        before, self._seen = self._seen, len(self._feeder.acked)
        return self._seen - before


class Words(Spout):
    """Stands for a source: scenarios replace it by rows of theirs."""

    outputs = Fields("word")

    def next_tuple(self) -> None:
        raise AssertionError("the scenario replaces this spout")


class WordCounter(BasicBolt):
    """Emits each word with how often it has come to this task."""

    outputs = Fields("word", "count")

    def prepare(self, context: Any) -> None:
        self.counts: dict[Any, int] = {}

    def execute(self, tup: Tuple, collector: Any) -> None:
        word = tup[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        collector.emit((word, self.counts[word]))


class Rich(Bolt):
    """A rich bolt with its collector at hand."""

    collector: BoltCollector

    def prepare(self, context: Any, collector: Any) -> None:
        self.context, self.collector = context, collector


class GlobalCount(Rich):
    """Emits how many tuples have come."""

    outputs = Fields("global-count")

    def prepare(self, context: Any, collector: Any) -> None:
        super().prepare(context, collector)
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1
        self.collector.emit((self.count,), tup)
        self.collector.ack(tup)


class AggregatesCounter(Rich):
    """Emits the sum of the last counts of all words; not anchored, as Storm's is not."""

    outputs = Fields("agg-global")

    def prepare(self, context: Any, collector: Any) -> None:
        super().prepare(context, collector)
        self.counts: dict[Any, int] = {}

    def execute(self, tup: Tuple) -> None:
        self.counts[tup[0]] = tup[1]
        self.collector.emit((sum(self.counts.values()),))
        self.collector.ack(tup)


class Identity(BasicBolt):
    """Emits what comes."""

    outputs = Fields("value")

    def execute(self, tup: Tuple, collector: Any) -> None:
        collector.emit(tup.values)


class Branching(Rich):
    """Emits 0, 1, … for each tuple, anchored to it."""

    outputs = Fields("num")

    def __init__(self, branches: int) -> None:
        self.branches = branches

    def execute(self, tup: Tuple) -> None:
        for i in range(self.branches):
            self.collector.emit((i,), tup)
        self.collector.ack(tup)


class Aggregating(Rich):
    """Holds tuples until it has so many; then emits one, anchored to all, and acks them."""

    outputs = Fields("num")

    def __init__(self, branches: int) -> None:
        self.branches = branches

    def prepare(self, context: Any, collector: Any) -> None:
        super().prepare(context, collector)
        self.seen: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.seen.append(tup)
        if len(self.seen) == self.branches:
            self.collector.emit((1,), self.seen)
            for seen in self.seen:
                self.collector.ack(seen)
            self.seen = []


class Acks(Rich):
    """Acks what comes."""

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class AcksEveryOther(Rich):
    """Acks the first, third, … tuple and forgets the others."""

    def prepare(self, context: Any, collector: Any) -> None:
        super().prepare(context, collector)
        self.acks = True

    def execute(self, tup: Tuple) -> None:
        if self.acks:
            self.collector.ack(tup)
        self.acks = not self.acks


class Noting(Rich):
    """Notes (index of the task, values) of each tuple."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def execute(self, tup: Tuple) -> None:
        self.notes.append((self.context.task_index, tup.values))
        self.collector.ack(tup)


class FirstTasks(Grouping):
    """To the first n tasks of the consumer. Storm: NGrouping."""

    def __init__(self, number: int = 3) -> None:
        self.number = number

    def prepare(self, context: GroupingContext, stream: Any, targets: Any) -> None:
        self.targets = sorted(targets)[: self.number]

    def choose(self, values: Any) -> Any:
        return self.targets


def straight(spout: Any, /, *, subscribe: Callable[[Any], Any] | None = None, tasks: int = 1, **bolts: Any) -> Any:
    """spout ─► first bolt ─► second …; the spout's id is "spout". `subscribe` and `tasks` are for the first bolt."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    source = "spout"
    for name, component in bolts.items():
        declarer = builder.set_bolt(name, component, tasks if source == "spout" else 1)
        if subscribe is not None and source == "spout":
            subscribe(declarer)
        else:
            declarer.shuffle_grouping(source)
        source = name
    return builder.create_topology()
