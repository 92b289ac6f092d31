"""What former tasks had saved, divided among other tasks: state by key, handles, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, Config, Fields, JoinBolt, Spout, Sum, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.state import ForeignError, KeyedState, StateError
from aiostorm.tasks import Rescaling
from aiostorm.tasks.snapshots.rescaling import least_time
from aiostorm.tasks.snapshots.saved import HANDLE, SENT, STATE, TASK, TIME, WINDOWS
from aiostorm.topology import KeyRanges
from aiostorm.windows import Count, KeyHash, PlainWindows, StreamClock, TimeSettings, WindowBolt


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


def test_windows_go_to_the_task_that_gets_the_rows_of_their_key() -> None:
    made, former = (
        rescaling(WindowedBolt(Tumbling(10), Sum("n"), key="word", timestamp="at"), 2, 3),
        KeyRanges.for_tasks(2),
    )
    words, by_word = [f"word {n}" for n in range(60)], KeyHash((0,), single=True)
    for index in range(2):
        machine = PlainWindows(Tumbling(10), Count())
        mine = [word for word in words if former.task_of(by_word.of(word, None) % former.n_ranges) == index]
        machine.add(mine, [1] * len(mine), [5] * len(mine))
        add(made, index, {WINDOWS: machine.dump(1)})
    found = []
    for task in range(3):
        sections, handles = made.take(task)
        assert set(sections) == {WINDOWS, TASK}
        assert handles == ()
        machine = PlainWindows(Tumbling(10), Count())
        machine.load(sections[WINDOWS])
        found.append([one.key for one in machine.advance(20)])
    assert sorted(word for keys in found for word in keys) == sorted(words)
    assert all(len(keys) > 5 for keys in found)


def test_a_join_is_divided_by_the_rows_of_its_inputs() -> None:
    builder = TopologyBuilder()
    for name in ("words", "others"):
        builder.set_spout(name, Words())
    join = JoinBolt("words", "word", Tumbling(10), timestamp="at").join("others", "word")
    builder.set_bolt("bolt", join, 4).fields_grouping("words", "word").fields_grouping("others", "word")
    spec = builder.create_topology(config=Config(message_timeout_s=60)).components["bolt"]
    fields = {(name, "default"): Words.outputs for name in ("words", "others")}
    made = Rescaling(spec, 4, 4, [0], fields)
    assert [made.needs(index, [WINDOWS]) for index in range(4)] == [True, False, False, False]


def test_a_component_with_state_and_windows_reads_all_that_may_have_its_keys() -> None:
    class Both(WindowedBolt):
        state = KeyedState(key="word")

    builder = TopologyBuilder()
    builder.set_spout("words", Words())
    windows = Both(Tumbling(10), Sum("n"), key="word", timestamp="at")
    builder.set_bolt("bolt", windows, 4).fields_grouping("words", "word")
    spec = builder.create_topology().components["bolt"]
    assert [Rescaling(spec, 4, 4, [0], {}).needs(index, []) for index in range(4)] == [True] * 4


def test_the_time_of_one_former_task_is_that_of_its_heirs() -> None:
    clocks = {"windows": StreamClock(TimeSettings.of(WindowBolt(), Config()), Tumbling(10)).dump(5)}
    merged = least_time([{SENT: {"sent_ms": 7, "clocks": clocks}}])
    assert set(merged) == {SENT}
    assert merged[SENT]["sent_ms"] is None
    assert set(merged[SENT]["clocks"]) == {"windows"}
    assert least_time([{SENT: {"clocks": clocks}}, {}]) == {}, "of the other nothing is known"
    assert least_time([{SENT: {"clocks": {**clocks, "a": 1}}}, {SENT: {"clocks": clocks}}])[SENT]["clocks"].keys() == {
        "windows"
    }


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
