"""What former tasks had saved, divided among other tasks: state by key, handles, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, Fields, Spout, Sum, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.state import ForeignError, KeyedState, StateError
from aiostorm.tasks import Rescaling
from aiostorm.tasks.snapshots.saved import HANDLE, STATE, TASK, TIME, WINDOWS


class Words(Spout):
    outputs = Fields("word", "n", "at")

    def next_tuple(self) -> None:
        """Nothing: it does not run."""


class Counts(BasicBolt):
    state = KeyedState(key="word")

    def execute(self, tup: Any, collector: Any) -> None:
        """Nothing."""


class Plain(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        """Nothing."""


def rescaling(bolt: Any, former: int, tasks: int, wanted: Any = None) -> Rescaling:
    builder = TopologyBuilder()
    builder.set_spout("words", Words())
    builder.set_bolt("bolt", bolt, tasks).fields_grouping("words", "word")
    spec = builder.create_topology().components["bolt"]
    return Rescaling(spec, former, tasks, range(tasks) if wanted is None else wanted, {})


def add(made: Rescaling, index: int, sections: dict[int, dict[Any, Any]]) -> None:
    for _ in made.add(index, sections):
        pass


def test_keys_and_handles_go_to_one_task_each() -> None:
    made = rescaling(Counts(), 4, 3)
    for index in range(4):
        content = {f"word {n}": n for n in range(index, 100, 4)}
        add(made, index, {STATE: content, HANDLE: {-1: f"handle {index}"}} if index else {STATE: content})
    found = [made.take(task) for task in range(3)]
    assert sum(len(sections[STATE]) for sections, _ in found) == 100
    assert {key: n for sections, _ in found for key, n in sections[STATE].items()} == {
        f"word {n}": n for n in range(100)
    }
    assert all(len(sections[STATE]) > 10 for sections, _ in found)
    assert sorted(handle for _, handles in found for handle in handles) == ["handle 1", "handle 2", "handle 3"]


def test_a_process_reads_what_its_tasks_need() -> None:
    windows = WindowedBolt(Tumbling(10), Sum("n"), key="word", timestamp="at")
    made = rescaling(windows, 4, 4, [0])
    assert [made.needs(index, [WINDOWS]) for index in range(4)] == [True, False, False, False]
    made = rescaling(windows, 4, 2, [1])
    assert [made.needs(index, [WINDOWS]) for index in range(4)] == [False, False, True, True]
    assert [made.needs(index, [HANDLE]) for index in range(4)] == [False, True, True, True]
    made = rescaling(windows, 300, 2, [0])
    assert all(made.needs(index, []) for index in range(300)), "there were more key ranges"
    assert all(rescaling(Counts(), 4, 8, [0]).needs(index, []) for index in range(4))
    assert all(rescaling(Plain(), 4, 8, [0]).needs(index, []) for index in range(4))


def test_what_does_not_fit_is_named_with_component_and_task() -> None:
    made = rescaling(Counts(), 2, 3)
    add(made, 0, {STATE: {"a": 1}})
    with pytest.raises(StateError, match=r"component 'bolt', its task 1 in the snapshot: .* 3 tasks: the key "):
        add(made, 1, {STATE: {"a": 2}})
    made = rescaling(WindowedBolt(Tumbling(10), Sum("n"), key="word", timestamp="at"), 2, 3)
    with pytest.raises(StateError, match=r"component 'bolt', its task 0 in the snapshot: .* the dump of windows"):
        add(made, 0, {})
    made = rescaling(Plain(), 1, 2)
    add(made, 0, {TASK: {None: {TIME: {"inputs": 5}}}})
    with pytest.raises(ForeignError, match="component 'bolt': its event time cannot be restored"):
        made.take(0)
