"""The base classes that users derive from, and the context that they are given."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.topology import (
    AckValueSpout,
    BasicBolt,
    Bolt,
    Component,
    Config,
    Failure,
    FailValueSpout,
    Fields,
    Progress,
    ResourceError,
    Spout,
    TaskHook,
    TopologyContext,
)


def context(hooks: list[TaskHook]) -> TopologyContext:
    return TopologyContext(
        topology="wc",
        component="count",
        task_id=4,
        task_index=1,
        config=Config(),
        tasks={"lines": (1, 2), "count": (3, 4)},
        fields={("lines", "default"): Fields("line")},
        add_hook=hooks.append,
    )


def test_the_context_knows_tasks_and_fields() -> None:
    hooks: list[TaskHook] = []
    ctx = context(hooks)
    assert (ctx.tasks("lines"), ctx.parallelism, ctx.task_id, ctx.task_index) == ((1, 2), 2, 4, 1)
    assert ctx.fields("lines") == Fields("line")
    with pytest.raises(KeyError, match="no component 'line'; there are: count, lines"):
        ctx.tasks("line")
    with pytest.raises(KeyError, match="'lines' declares no stream 'errors'"):
        ctx.fields("lines", "errors")
    hook = TaskHook()
    ctx.add_task_hook(hook)
    assert hooks == [hook]


def test_methods_that_a_user_leaves_out_do_nothing() -> None:
    given: Any = None
    failure = Failure("timeout")
    spout = Spout()
    assert [spout.open(given, given), spout.ack(1), spout.fail(1, failure), spout.activate()] == [None] * 4
    assert [spout.deactivate(), spout.close(), spout.result()] == [None] * 3
    assert [AckValueSpout().ack(1, ()), FailValueSpout().fail(1, (), failure)] == [None] * 2
    assert [Bolt().prepare(given, given), Bolt().cleanup(), BasicBolt().prepare(given), BasicBolt().cleanup()] == [
        None
    ] * 4
    hook = TaskHook()
    assert [hook.prepare(given), hook.cleanup(), hook.emit((), "s", 1), hook.spout_ack(1, 1, 0.0)] == [None] * 4
    assert [hook.spout_fail(1, 1, failure), hook.bolt_execute(given, 1, 0.0)] == [None] * 2
    assert [hook.bolt_ack(given, 1), hook.bolt_fail(given, 1)] == [None] * 2
    assert (Component.outputs, dict(Component.config), Component.blocking) == (None, {}, False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Spout().next_tuple(), "Spout must define next_tuple"),
        (lambda: Bolt().execute(None), "Bolt must define execute or execute_batch"),  # type: ignore[arg-type]
        (lambda: BasicBolt().execute(None, None), "BasicBolt must define execute or execute_batch"),  # type: ignore[arg-type]
    ],
)
def test_a_missing_required_method_is_an_error(call: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        call()


def test_a_context_has_the_resources_of_its_worker() -> None:
    known: dict[str, Any] = {"tasks": {}, "fields": {}, "add_hook": [].append, "config": Config()}
    ids: dict[str, Any] = {"topology": "t", "component": "count", "task_id": 4, "task_index": 1}
    assert TopologyContext(**ids, **known, resources={"pool": 5}).resource("pool") == 5
    with pytest.raises(ResourceError, match="no resource 'pool' is declared"):
        TopologyContext(**ids, **known).resource("pool")


def test_a_context_has_the_metrics_of_its_task() -> None:
    known: dict[str, Any] = {"tasks": {}, "fields": {}, "add_hook": [].append, "config": Config()}
    ids: dict[str, Any] = {"topology": "t", "component": "count", "task_id": 4, "task_index": 1}
    source: Any = object()
    assert TopologyContext(**ids, **known, metrics=source).metrics is source
    with pytest.raises(RuntimeError, match="made without metrics"):
        _ = TopologyContext(**ids, **known).metrics


class Batching(BasicBolt):
    def execute_batch(self, tuples: Any, collector: Any) -> None: ...


class Ticking(BasicBolt):
    def on_tick(self, collector: Any) -> None: ...


def test_a_bolt_anchors_all_that_it_emits_if_each_call_has_one_tuple() -> None:
    assert [kind().time_role.anchors for kind in (BasicBolt, Batching, Ticking)] == [True, False, False]


def test_progress_has_no_rows_unless_they_are_counted() -> None:
    assert Progress(1, 2, "files") == (1, 2, "files", 0, 0, "")
