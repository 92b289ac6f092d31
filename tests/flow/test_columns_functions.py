"""Functions of batches: spouts that yield them, bolts that take them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiostorm import (
    TopologyBuilder,
    TopologyError,
    bolt,
    spout,
)

from .columns_parts import (
    ROWS,
    WORDS,
    CountColumns,
    CountRich,
    batch,
    run,
    total,
)

pa: Any = pytest.importorskip("pyarrow")
pc: Any = pytest.importorskip("pyarrow.compute")

# -- functions ---------------------------------------------------------------------------------------------------------


@spout("word", "n")
def batches() -> Any:
    for first in range(3):
        yield batch(first * ROWS)


@spout("word", "n")
async def batches_async() -> Any:
    for first in range(3):
        await asyncio.sleep(1)
        yield batch(first * ROWS)


@spout("word", "n", blocking=True)
def batches_in_a_thread() -> Any:
    for first in range(3):
        yield batch(first * ROWS)


@bolt("word", "n", arrow=True)
def even(given: Any) -> Any:
    return given.filter(pc.equal(pc.bit_wise_and(given["n"], 1), 0))


@bolt("word", "n", arrow=True)
async def even_async(given: Any) -> Any:
    await asyncio.sleep(0)
    return even(given)


@bolt("word", "n", arrow=True)
def even_pieces(given: Any) -> Any:
    for start in range(0, given.num_rows, 1000):
        yield even(given.slice(start, 1000))


@bolt("word", "n", arrow=True)
async def even_pieces_async(given: Any) -> Any:
    for piece in even_pieces(given):
        yield piece


@bolt("word", "n", arrow=True, blocking=True)
def even_in_a_thread(given: Any) -> Any:
    return list(even_pieces(given))


@pytest.mark.parametrize("source", [batches, batches_async, batches_in_a_thread], ids=lambda source: source.name)
@pytest.mark.parametrize(
    "step", [even, even_async, even_pieces, even_pieces_async, even_in_a_thread], ids=lambda step: step.name
)
async def test_functions_of_batches(source: Any, step: Any) -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("even", step, parallelism=2).shuffle_grouping("source")
    builder.set_bolt("count", CountColumns, parallelism=3).fields_grouping("even", "word")
    results, metrics, errors = await run(builder.create_topology())
    assert errors == []
    evens = Counter(word for i, word in enumerate(WORDS) if i % 2 == 0)
    assert total(results["count"]) == Counter({word: 3 * count for word, count in evens.items()})
    assert metrics["source"].acked == 3


async def test_a_function_that_returns_another_type_fails_with_the_remedy() -> None:
    @bolt("word", "n", arrow=True)
    def wrong(given: Any) -> Any:
        return pa.table(given.to_pydict())

    builder = TopologyBuilder()
    builder.set_spout("source", batches)
    builder.set_bolt("wrong", wrong).shuffle_grouping("source")
    _, metrics, errors = await run(builder.create_topology(), max_retries=0)
    assert metrics["source"].failed == 3
    assert "table.to_batches()" in errors[0].error


def test_a_bolt_that_cannot_take_columns_is_refused_when_the_topology_is_built() -> None:
    class Rich(CountRich):
        def execute_arrow(self, given: Any) -> None: ...

    builder = TopologyBuilder()
    builder.set_spout("source", batches)
    builder.set_bolt("rich", Rich).shuffle_grouping("source")
    with pytest.raises(TopologyError, match="only a BasicBolt can"):
        builder.create_topology()
    with pytest.raises(TopologyError, match="must take one argument"):
        bolt(arrow=True)(lambda first, second: None)
