"""Task hooks see every tuple; one that raises is reported and changes nothing. And topology.debug, which is one."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, ConfigError, LocalCluster, TaskHook, TopologyBuilder, bolt
from aiostorm.testing import FixedSpout, Recorder

from .parts import Does, DoesRich, Notes, Numbers, line, rows

SEEN = Notes()


class Sees(TaskHook):
    """Notes every call."""

    def prepare(self, context: Any) -> None:
        SEEN.append((context.component, "prepare"))
        self.component = context.component

    def cleanup(self) -> None:
        SEEN.append((self.component, "cleanup"))

    def emit(self, values: Any, stream: str, task_id: int) -> None:
        SEEN.append((self.component, "emit", values, stream, task_id))

    def spout_ack(self, message_id: Any, task_id: int, complete_latency_s: float) -> None:
        assert complete_latency_s >= 0
        SEEN.append((self.component, "spout_ack", message_id, task_id))

    def spout_fail(self, message_id: Any, task_id: int, failure: Any) -> None:
        SEEN.append((self.component, "spout_fail", message_id, task_id, failure.reason))

    def bolt_execute(self, tup: Any, task_id: int, execute_latency_s: float) -> None:
        assert execute_latency_s >= 0
        SEEN.append((self.component, "bolt_execute", tup.values, task_id))

    def bolt_ack(self, tup: Any, task_id: int) -> None:
        SEEN.append((self.component, "bolt_ack", tup.values, task_id))

    def bolt_fail(self, tup: Any, task_id: int) -> None:
        SEEN.append((self.component, "bolt_fail", tup.values, task_id))


class Broken(TaskHook):
    """Raises everywhere."""

    def _raise(self, *arguments: Any) -> None:
        raise LookupError("a broken hook")

    prepare = cleanup = emit = spout_ack = spout_fail = bolt_execute = bolt_ack = bolt_fail = _raise


class NoHook:
    """Not a TaskHook."""


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


def basic(tup: Any, collector: Any) -> None:
    collector.emit((tup["n"],))
    if tup["n"] == 1:
        raise ValueError("one")


def rich(tup: Any, collector: Any) -> None:
    collector.emit((tup["n"],))
    if tup["n"] == 1:
        collector.fail(tup)
    else:
        collector.ack(tup)


@bolt(outputs="out")
def function(n: int) -> Any:
    yield n
    if n == 1:
        raise ValueError("one")


@bolt(outputs="out")
async def async_function(n: int) -> int:
    if n == 1:
        raise ValueError("one")
    return n


class Batch(BasicBolt):
    outputs = "out"

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            collector.emit((tup["n"],), anchors=tup)
        if any(tup["n"] == 1 for tup in tuples):
            raise ValueError("one")


class RichBatch(Bolt):
    outputs = "out"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Any) -> None:
        for tup in tuples:
            rich(tup, self.collector)


KINDS = {
    "basic": lambda: Does(basic),
    "rich": lambda: DoesRich(rich),
    "function": lambda: function,
    "async function": lambda: async_function,
    "batch": Batch,
    "rich batch": RichBatch,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_method_is_called_right(local_cluster: LocalCluster, kind: str) -> None:
    source, sink = Numbers(3), Recorder()
    config = Config(auto_task_hooks=[f"{__name__}:Sees"], acker_tree_max_messages=1, turn_max_tuples=1)
    running = await local_cluster.submit("t", line(source, bolt=KINDS[kind](), sink=sink), config)
    await running.wait_finished()
    await running.kill()
    of = {c: [note[1:] for note in SEEN if note[0] == c] for c in ("spout", "bolt", "sink")}
    assert of["spout"][0] == of["bolt"][0] == of["sink"][0] == ("prepare",)
    assert of["spout"][-1] == of["bolt"][-1] == of["sink"][-1] == ("cleanup",)
    assert [note for note in of["spout"] if note[0] == "emit"] == [("emit", (n,), "default", 1) for n in range(3)]
    assert sorted(note for note in of["spout"] if note[0].startswith("spout")) == [
        ("spout_ack", 0, 1),
        ("spout_ack", 2, 1),
        ("spout_fail", 1, 1, "failed"),
    ]
    assert [note for note in of["bolt"] if note[0] == "bolt_execute"] == [("bolt_execute", (n,), 2) for n in range(3)]
    assert [note for note in of["bolt"] if note[0] == "bolt_ack"] == [("bolt_ack", (n,), 2) for n in (0, 2)]
    assert [note for note in of["bolt"] if note[0] == "bolt_fail"] == [("bolt_fail", (1,), 2)]
    emitted = {note[1][0] for note in of["bolt"] if note[0] == "emit"}
    assert emitted >= {0, 2}
    assert len([note for note in of["sink"] if note[0] == "bolt_ack"]) == len(sink.values)
    assert sorted(source.acked) == [0, 2]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_broken_hook_is_reported_and_changes_nothing(local_cluster: LocalCluster, kind: str) -> None:
    source, sink = Numbers(3), Recorder()
    config = Config(auto_task_hooks=[f"{__name__}:Broken"], acker_tree_max_messages=1, turn_max_tuples=1)
    running = await local_cluster.submit("t", line(source, bolt=KINDS[kind](), sink=sink), config)
    await running.wait_finished()
    await running.kill()
    assert sorted(source.acked) == [0, 2]
    assert list(source.failed) == [1]
    reports = [report for report in running.errors() if report.where == "a hook"]
    assert {report.component for report in reports} == {"spout", "bolt", "sink"}
    assert {report.error for report in reports} == {"LookupError: a broken hook"}
    assert running.metrics()["bolt"].restarts == 0


async def test_a_hook_of_one_task_only(local_cluster: LocalCluster) -> None:
    class Hooked(BasicBolt):
        outputs = "out"

        def prepare(self, context: Any) -> None:
            if context.task_index == 0:
                context.add_task_hook(Sees())

        def execute(self, tup: Any, collector: Any) -> None:
            collector.emit(tup.values)

    builder = TopologyBuilder()
    builder.set_spout("spout", FixedSpout(rows(range(10)), "n"))
    builder.set_bolt("bolt", Hooked, 2).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    assert {note[-1] for note in SEEN if note[1] == "bolt_execute"} == {2}
    assert len([note for note in SEEN if note[1] == "bolt_execute"]) == 5


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:Hook", "no_such_module"),
        (f"{__name__}:Nothing", "Nothing"),
        (f"{__name__}:NoHook", "NoHook"),
        ("nonsense", "nonsense"),
    ],
)
async def test_a_hook_that_cannot_be_loaded_is_refused_at_submit(
    local_cluster: LocalCluster, name: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=rf"topology\.auto\.task\.hooks.*{says}"):
        await local_cluster.submit("t", line(Numbers(1), sink=Recorder()), Config(auto_task_hooks=[name]))
    assert not local_cluster.topologies


async def test_a_hook_is_named_with_a_dot_too(local_cluster: LocalCluster) -> None:
    config = Config(auto_task_hooks=[f"{__name__}.Sees"])
    running = await local_cluster.submit("t", line(Numbers(1), sink=Recorder()), config)
    await running.wait_finished()
    assert ("sink", "prepare") in SEEN


@pytest.mark.parametrize("kind", KINDS)
async def test_debug_logs_every_emit_execute_ack_and_fail(
    local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers(3))
    builder.set_bolt("bolt", KINDS[kind]()).shuffle_grouping("spout").set_config(debug=True)
    builder.set_bolt("sink", Recorder()).shuffle_grouping("bolt")
    config = Config(acker_tree_max_messages=1, turn_max_tuples=1)
    with caplog.at_level(logging.INFO, logger="aiostorm.debug"):
        running = await local_cluster.submit("t", builder.create_topology(), config)
        await running.wait_finished()
    lines = [record.getMessage() for record in caplog.records if record.name == "aiostorm.debug"]
    assert all(text.startswith("t: bolt[2] ") for text in lines)
    assert "t: bolt[2] emits (0,) on 'default'" in lines
    assert "t: bolt[2] executes Tuple(n=0; from spout[1] on 'default')" in lines
    assert "t: bolt[2] acks Tuple(n=0; from spout[1] on 'default')" in lines
    assert "t: bolt[2] fails Tuple(n=1; from spout[1] on 'default')" in lines


async def test_debug_of_a_spout(local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    source = Numbers(2)
    with caplog.at_level(logging.INFO, logger="aiostorm.debug"):
        running = await local_cluster.submit(
            "t", line(source, sink=Recorder(fail_on=lambda tup: tup["n"] == 1)), {"topology.debug": True}
        )
        await running.wait_finished()
    lines = [record.getMessage() for record in caplog.records if record.name == "aiostorm.debug"]
    assert "t: spout[1] emits (1,) on 'default'" in lines
    assert any(text.startswith("t: spout[1] gets ack of 0 after ") for text in lines)
    assert any(text.startswith("t: spout[1] gets fail of 1: ") for text in lines)


async def test_debug_shows_no_more_than_a_line_of_a_huge_value(
    local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    source = FixedSpout([("x" * 100_000,)], "text")
    with caplog.at_level(logging.INFO, logger="aiostorm.debug"):
        running = await local_cluster.submit("t", line(source, sink=Recorder()), {"topology.debug": True})
        await running.wait_finished()
    assert max(len(record.getMessage()) for record in caplog.records) < 1000
