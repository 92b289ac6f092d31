"""Sinks with a value for each key: several tasks may not get the rows of one key."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from aiostorm import Config, Grouping, MapSink, TopologyBuilder, TopologyError, spout
from aiostorm.state import UpsertSink
from aiostorm.topology import make_plan

EXACTLY_ONCE = Config(guarantee="exactly-once")


@spout(outputs=("user", "day", "n"), repeatable=True)
async def clicks() -> Any:
    yield "ann", 1, 1


@spout(outputs=("user", "day", "n"), repeatable=True)
async def orders() -> Any:
    yield "ann", 1, 1


class Store:
    def multi_get(self, keys: Any) -> Any:
        return [None for _ in keys]

    def multi_put(self, values: Any) -> None: ...


class First(Grouping):
    def choose(self, values: Any) -> list[int]:
        return [self.tasks[0]]


def by(*key: str) -> MapSink:
    return MapSink(Store(), key=key, value="n", combine=operator.add)


def declared(sink: Any, tasks: int = 2) -> tuple[TopologyBuilder, Any]:
    builder = TopologyBuilder()
    builder.set_spout("clicks", clicks)
    builder.set_spout("orders", orders)
    return builder, builder.set_bolt("sums", sink, tasks)


def problems(builder: TopologyBuilder, config: Config | None = None) -> tuple[str, ...]:
    with pytest.raises(TopologyError) as caught:
        builder.create_topology(config=config)
    return tuple(caught.value.problems)


def test_several_tasks_after_a_shuffle_are_refused() -> None:
    builder, bolt = declared(by("user"), 4)
    bolt.shuffle_grouping("clicks").fields_grouping("orders", "user")
    (problem,) = problems(builder)
    assert problem == (
        "bolt 'sums': it keeps one value for each user in another system and has 4 tasks, but it reads 'clicks' with "
        "shuffle grouping: rows of one key would come to several tasks, which overwrite each other's values. Use "
        "fields_grouping('clicks', 'user'), or parallelism=1"
    )


@pytest.mark.parametrize("kind", ["none_grouping", "all_grouping", "local_or_shuffle_grouping", "local_first_grouping"])
def test_so_is_every_grouping_that_does_not_keep_a_key_in_one_task(kind: str) -> None:
    builder, bolt = declared(by("user"))
    getattr(bolt, kind)("clicks")
    (problem,) = problems(builder)
    assert "has 2 tasks, but it reads 'clicks' with " in problem


@pytest.mark.parametrize("fields", [("n",), ("user", "n"), ("user", "day", "n")])
def test_fields_outside_of_the_key_divide_it(fields: tuple[str, ...]) -> None:
    builder, bolt = declared(by("user", "day"))
    bolt.fields_grouping("clicks", *fields)
    (problem,) = problems(builder)
    assert f"with fields grouping by {', '.join(fields)}: rows of one key would come to several tasks" in problem


def test_partial_keys_divide_a_key() -> None:
    builder, bolt = declared(by("user"))
    bolt.partial_key_grouping("clicks", "user")
    (problem,) = problems(builder)
    assert "with partial_key grouping by user" in problem


@pytest.mark.parametrize("fields", [("user",), ("day",), ("user", "day"), ("day", "user")])
def test_any_part_of_the_key_keeps_it_in_one_task(fields: tuple[str, ...]) -> None:
    builder, bolt = declared(by("user", "day"))
    bolt.fields_grouping("clicks", *fields).fields_grouping("orders", *fields)
    assert builder.create_topology().components["sums"].keyed_output == ("user", "day")


@pytest.mark.parametrize("second", [("day",), ("user", "day"), ()])
def test_two_inputs_must_be_divided_in_the_same_way(second: tuple[str, ...]) -> None:
    builder, bolt = declared(by("user", "day"))
    bolt.fields_grouping("clicks", "user")
    if second:
        bolt.fields_grouping("orders", *second)
    else:
        bolt.global_grouping("orders")
    (problem,) = problems(builder)
    assert "reads 'clicks' with fields grouping by user and 'orders' with " in problem
    assert problem.endswith(
        "Use fields_grouping('clicks', 'user', 'day') and fields_grouping('orders', 'user', 'day'), or parallelism=1"
    )


def test_one_task_gets_everything() -> None:
    builder, bolt = declared(by("user"))
    bolt.global_grouping("clicks").global_grouping("orders")
    builder.create_topology()
    builder, bolt = declared(by("user"), 1)
    bolt.shuffle_grouping("clicks").fields_grouping("orders", "n")
    builder.create_topology()


def test_a_grouping_of_the_users_own_is_trusted() -> None:
    builder, bolt = declared(by("user"))
    bolt.custom_grouping("clicks", First).global_grouping("orders")
    builder.create_topology()


def test_an_upsert_needs_the_rows_of_a_key_in_one_task_too() -> None:
    builder, bolt = declared(UpsertSink(lambda: None, "table", key=("user", "day"), values="n"))
    bolt.shuffle_grouping("clicks")
    (problem,) = problems(builder)
    assert problem.startswith("bolt 'sums': it keeps one value for each user, day in another system and has 2 tasks")


def test_it_is_reported_with_the_other_mistakes() -> None:
    builder, bolt = declared(by("user"))
    bolt.shuffle_grouping("clicks")
    builder.set_bolt("wrong", by("user"), "two").shuffle_grouping("nothing")  # type: ignore[arg-type]
    found = problems(builder)
    assert sum("overwrite each other" in problem for problem in found) == 1
    assert any("parallelism must be a whole number" in problem for problem in found)


def test_the_number_of_tasks_that_counts_is_that_of_the_plan() -> None:
    capped = Config(guarantee="exactly-once", max_task_parallelism=1)
    builder, bolt = declared(by("user"), 4)
    bolt.shuffle_grouping("clicks")
    topology = builder.create_topology(config=capped)
    assert len(make_plan(topology, capped).tasks_of["sums"]) == 1
    with pytest.raises(TopologyError, match="and has 3 tasks"):
        make_plan(topology, Config(guarantee="exactly-once", max_task_parallelism=3))
    with pytest.raises(TopologyError, match="and has 4 tasks"):
        make_plan(topology, EXACTLY_ONCE)
