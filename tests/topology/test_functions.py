"""Functions as components: what the decorators find out about them."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest

from aiostorm.topology import (
    Component,
    Fields,
    FunctionBolt,
    FunctionSpout,
    TopologyContext,
    TopologyError,
    bolt,
    spout,
)


def plain(a: int, b: int = 0) -> int:
    """Add."""
    return a + b


def generator(a: int) -> Any:
    yield a


async def coroutine(a: int) -> int:
    return a


async def async_generator(a: int) -> Any:
    yield a


def lines() -> Any:
    yield "the cat sat"


def replay(path: str) -> Any:
    yield path


class CallsGenerator:
    def __init__(self) -> None:
        self.received: list[int] = []

    def __call__(self, a: int) -> Any:
        self.received.append(a)
        yield a

    async def method(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(
    ("fn", "style", "is_async", "arity"),
    [
        (plain, "function", False, (1, 2)),
        (generator, "generator", False, (1, 1)),
        (coroutine, "function", True, (1, 1)),
        (async_generator, "generator", True, (1, 1)),
        (lambda *a: a, "function", False, (0, None)),
        (functools.partial(plain, 1), "function", False, (0, 1)),
        (functools.partial(coroutine, 1), "function", True, (0, 0)),
        (CallsGenerator(), "generator", False, (1, 1)),
        (CallsGenerator().method, "function", True, (2, 2)),
        (str.upper, "function", False, (1, 1)),
        (str, "function", False, (0, None)),
    ],
)
def test_a_bolt_knows_style_colour_and_arity(
    fn: Any, style: str, is_async: bool, arity: tuple[int, int | None]
) -> None:
    made = bolt("word")(fn)
    assert isinstance(made, FunctionBolt)
    assert isinstance(made, Component)
    assert (made.style, made.is_async, (made.min_args, made.max_args)) == (style, is_async, arity)
    assert made.fn is fn
    assert (made.outputs, made.blocking, made.config) == ("word", False, {})
    assert [count for count in range(5) if made.accepts(count)] == [
        count for count in range(5) if arity[0] <= count <= (9 if arity[1] is None else arity[1])
    ]


def test_a_decorated_function_stays_callable() -> None:
    made = bolt("sum")(plain)
    assert made(1, b=2) == 3
    assert (made.__doc__, vars(made)["__name__"], made.name) == ("Add.", "plain", "plain")
    assert repr(made) == "FunctionBolt(plain)"
    assert plain(1) == 1


@pytest.mark.parametrize(
    ("decorated", "outputs"),
    [
        (bolt(plain), None),
        (bolt()(plain), None),
        (bolt("a")(plain), "a"),
        (bolt("a", "b")(plain), ("a", "b")),
        (bolt(["a", "b"])(plain), ["a", "b"]),
        (bolt(Fields("a"))(plain), Fields("a")),
        (bolt(outputs=Fields("a", "b"))(plain), Fields("a", "b")),
        (bolt({"default": "a"})(plain), {"default": "a"}),
        (spout(lines), None),
        (spout("a", "b")(lines), ("a", "b")),
        (spout(outputs="a")(lines), "a"),
    ],
    ids=str,
)
def test_fields_come_by_position_or_as_outputs(decorated: Any, outputs: Any) -> None:
    assert decorated.outputs == outputs


def test_options_are_kept() -> None:
    made = bolt("a", blocking=True, config={"turn_max_ms": 3})(plain)
    assert (made.blocking, made.config) == (True, {"turn_max_ms": 3})
    source = spout("a", tracked=False, blocking=True, config={"max_spout_pending": 3})(lines)
    assert (source.tracked, source.blocking, source.config) == (False, True, {"max_spout_pending": 3})
    assert (spout("a")(lines).tracked, spout("a")(lines).blocking) == (True, False)
    assert spout(lines, config={"max_spout_pending": 3}).config == {"max_spout_pending": 3}  # type: ignore[call-overload]
    assert bolt(plain, config={"turn_max_ms": 3}).config == {"turn_max_ms": 3}  # type: ignore[call-overload]


def test_a_function_of_batches_takes_one_argument() -> None:
    assert bolt("a", arrow=True)(generator).arrow
    with pytest.raises(TopologyError, match=r"must take one argument, the pyarrow.RecordBatch"):
        bolt("a", arrow=True)(lambda: None)


def numbers() -> Any:
    yield from range(3)


def limited(limit: int = 10) -> Any:
    yield from range(limit)


def with_context(context: TopologyContext) -> Any:
    yield context.task_id


def annotated(of_this_task: TopologyContext) -> Any:
    yield of_this_task.task_id


async def forever(context: TopologyContext) -> Any:
    yield context


@pytest.mark.parametrize(
    ("fn", "is_async", "wants_context"),
    [
        (numbers, False, False),
        (limited, False, False),
        (with_context, False, True),
        (annotated, False, True),
        (lambda ctx: (yield ctx), False, True),
        (forever, True, True),
        (functools.partial(limited, 3), False, False),
        (functools.partial(limited, limit=3), False, False),
    ],
)
def test_a_spout_gets_the_context_if_it_needs_an_argument(fn: Any, is_async: bool, wants_context: bool) -> None:
    made = spout("n")(fn)
    assert isinstance(made, FunctionSpout)
    assert (made.fn, made.is_async, made.wants_context) == (fn, is_async, wants_context)


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: spout("a")(plain), "needs a generator function .*'plain' is not one"),
        (lambda: spout("a")(coroutine), "needs a generator function"),
        (lambda: spout("a")(lambda x, y: (yield x)), "needs x, y, but.*functools.partial"),
        (lambda: spout("a")(replay), r"'replay' needs path, but .*functools.partial\(replay, path=…\)"),
        (lambda: spout(replay), r"'replay' needs path, but"),
        (lambda: spout("a")(lambda context, path: (yield path)), r"functools.partial\(<lambda>, path=…\)"),
        (lambda: bolt("a")(lambda x, *, y: x), "needs y by keyword.*functools.partial"),
        (lambda: bolt("a", outputs="b"), "either by position or as outputs="),
        (lambda: spout("a", outputs="b"), "either by position or as outputs="),
    ],
)
def test_a_function_that_cannot_be_a_component_is_refused_where_it_is_decorated(decorate: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        decorate()


def test_copies_for_tasks_share_the_function_but_not_the_state() -> None:
    assert copy.deepcopy(bolt("a")(plain)).fn is plain
    stateful = bolt("a")(CallsGenerator())
    first, second = copy.deepcopy(stateful), copy.deepcopy(stateful)
    assert list(first(1)) == [1]
    assert (first.fn.received, second.fn.received, stateful.fn.received) == ([1], [], [])
