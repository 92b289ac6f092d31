"""Generator spouts that are repeatable: their position, and where they begin again."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aiostorm import spout
from aiostorm.state import StateError
from aiostorm.tasks.generator_spout import GeneratorSpout


class Emitted:
    """A collector that keeps what is emitted."""

    takes_chunks = True

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.finished = False

    def emit(self, values: Any, message_id: int | None = None) -> None:
        self.items.append(values[0])
        assert message_id is None or message_id >= len(self.items) - 1

    def emit_chunk(self, items: list[Any], number: int | None) -> None:
        self.items += items

    def finish(self) -> None:
        self.finished = True


called = threading.local()


def plain() -> Iterator[int]:
    yield from range(500)


def by_start(*, start: int) -> Iterator[int]:
    called.start = start
    yield from range(start, 500)


def with_context(context: Any, *, start: int = 0) -> Iterator[int]:
    assert context == "the context"
    yield from range(start, 500)


async def asynchronous() -> AsyncIterator[int]:
    for n in range(500):
        yield n


async def asynchronous_by_start(*, start: int = 0) -> AsyncIterator[int]:
    for n in range(start, 500):
        yield n


MADE = {
    "plain": spout("n", repeatable=True)(plain),
    "start": spout("n")(by_start),
    "context": spout("n")(with_context),
    "async": spout("n", repeatable=True)(asynchronous),
    "async, start": spout("n")(asynchronous_by_start),
    "blocking": spout("n", repeatable=True, blocking=True)(plain),
    "blocking, start": spout("n", blocking=True)(by_start),
    "untracked": spout("n", repeatable=True, tracked=False)(plain),
}


def opened(made: Any) -> tuple[GeneratorSpout, Emitted]:
    source, emitted = GeneratorSpout(made, 1), Emitted()
    source.open("the context", emitted)  # type: ignore[arg-type]
    return source, emitted


async def awaited(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


async def emit_some(source: GeneratorSpout, chunked: bool, most: int) -> None:
    if chunked and source.gives_chunks:
        source.turn(most, 1e9, lambda: 0.0)
        return
    for _ in range(most):
        await awaited(source.next_tuple())


@pytest.mark.parametrize("position", [0, 1, 64, 130, 500])
@pytest.mark.parametrize("chunked", [False, True], ids=["items", "chunks"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
async def test_it_continues_after_its_position(made: Any, chunked: bool, position: int) -> None:
    first, before = opened(made)
    await emit_some(first, chunked, position)
    assert first.snapshot() == len(before.items) == position

    again, after = opened(made)
    await awaited(again.restore(position))
    assert again.snapshot() == position
    await emit_some(again, chunked, 600)
    assert before.items + after.items == list(range(500))
    assert after.finished
    assert again.snapshot() == 500
    await awaited(first.close())
    await awaited(again.close())


async def test_a_function_with_start_is_not_asked_for_what_comes_before() -> None:
    source, emitted = opened(MADE["start"])
    await awaited(source.restore(499))
    await emit_some(source, True, 1)
    assert emitted.items == [called.start] == [499]


async def test_other_tasks_run_while_it_skips() -> None:
    source, _ = opened(MADE["plain"])
    skipping = source.restore(500)
    assert inspect.iscoroutine(skipping)
    steps = 0
    while True:
        try:
            skipping.send(None)
        except StopIteration:
            break
        steps += 1
    assert steps == 500 // 64 + 1


@pytest.mark.parametrize("kind", ["plain", "async", "blocking"])
async def test_one_that_yields_fewer_items_than_before_is_refused(kind: str) -> None:
    source, _ = opened(MADE[kind])
    with pytest.raises(
        StateError, match=r"has yielded 500 items, and 501 before it was restored: it is not repeatable"
    ):
        await awaited(source.restore(501))


def test_a_start_that_a_partial_has_bound_is_the_functions_own() -> None:
    source, emitted = opened(spout("n", repeatable=True)(functools.partial(by_start, start=490)))
    source.next_tuple()
    assert (emitted.items, source.snapshot()) == ([490], 1)


def test_the_decorated_function_is_still_a_function() -> None:
    made: Callable[..., Iterator[int]] = spout("n")(by_start)
    assert list(made(start=498)) == [498, 499]
