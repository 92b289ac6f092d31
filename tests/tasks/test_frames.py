"""What is shown of an error: the lines of user code, and a hint where a common mistake is behind it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Fields, LocalCluster, Topology, TopologyBuilder, TopologyError, bolt, spout
from aiostorm.runtime import StoreError
from aiostorm.tasks.frames import own_frames

from .parts import Does, Numbers, line

Logged = pytest.LogCaptureFixture


@spout("line")
def lines() -> Iterator[str]:
    yield "the cat sat"


async def shown(cluster: LocalCluster, caplog: Logged, topology: Topology, level: int = logging.INFO) -> str:
    """What the log says first of the errors of a topology."""
    with caplog.at_level(level, logger="aiostorm.component"):
        running = await cluster.submit("t", topology)
        await running.wait_finished()
    return next(record.getMessage() for record in caplog.records if record.name == "aiostorm.component")


def files_of(text: str) -> list[str]:
    return [entry.split('"')[1].rpartition("/")[2] for entry in text.splitlines() if entry.startswith("  File")]


def bad(tup: Any, collector: Any) -> None:
    json.loads("{")


async def later(tup: Any, collector: Any) -> None:
    await asyncio.sleep(0)
    bad(tup, collector)


async def of_a_group(tup: Any, collector: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(later(tup, collector))


def from_another(tup: Any, collector: Any) -> None:
    try:
        bad(tup, collector)
    except ValueError as error:
        raise LookupError("no") from error


@pytest.mark.parametrize("act", [bad, later, from_another])
async def test_the_log_shows_frames_of_user_code_only(local_cluster: LocalCluster, caplog: Logged, act: Any) -> None:
    text = await shown(local_cluster, caplog, line(Numbers(1), bolt=Does(act)))
    files = files_of(text)
    assert {"test_frames.py", "decoder.py"} <= set(files)
    assert set(files) <= {"parts.py", "test_frames.py", "__init__.py", "decoder.py"}, "and what they called"
    assert "JSONDecodeError" in text
    assert ("direct cause" in text) == (act is from_another)


async def test_a_blocking_bolt_shows_no_frames_of_threads(local_cluster: LocalCluster, caplog: Logged) -> None:
    class Blocks(BasicBolt):
        blocking = True

        def execute(self, tup: Any, collector: Any) -> None:
            bad(tup, collector)

    files = files_of(await shown(local_cluster, caplog, line(Numbers(1), bolt=Blocks())))
    assert files[:2] == ["test_frames.py", "test_frames.py"]


async def test_parts_of_a_group_are_shown(local_cluster: LocalCluster, caplog: Logged) -> None:
    text = await shown(local_cluster, caplog, line(Numbers(1), bolt=Does(of_a_group)))
    assert "JSONDecodeError" in text
    assert "turns.py" not in text


async def test_a_log_of_level_debug_and_the_report_have_all_frames(local_cluster: LocalCluster, caplog: Logged) -> None:
    text = await shown(local_cluster, caplog, line(Numbers(1), bolt=Does(bad)), logging.DEBUG)
    assert "basic_executor.py" in files_of(text)
    [running] = local_cluster.topologies.values()
    assert "basic_executor.py" in running.errors()[0].traceback


async def test_an_error_of_the_framework_is_one_line(local_cluster: LocalCluster, caplog: Logged) -> None:
    def split(text: str) -> Any:
        return text.split()

    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("split", bolt("a", "b")(split)).shuffle_grouping("lines")
    text = await shown(local_cluster, caplog, builder.create_topology())
    assert "EmitError: component 'split' (task 2) emits 3 values on stream 'default', which has 2 fields" in text
    assert len(text.splitlines()) == 1


@bolt("word")
def split(text: str) -> Any:
    return text.split()


@bolt("word", "n")
def pairs(text: str) -> Any:
    return [(word, 1, text) for word in text.split()]


@bolt
def shout(word: str) -> None:
    word.upper()


def counting(first: Any, *fields: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("split", first).shuffle_grouping("lines")
    declarer = builder.set_bolt("count", shout if first is split else Does(bad))
    _ = declarer.fields_grouping("split", *fields) if fields else declarer.shuffle_grouping("split")
    return builder.create_topology()


@pytest.mark.parametrize(
    ("topology", "says"),
    [
        (counting(split, "word"), "UnhashableKeyError: field 'word'"),
        (counting(split), "AttributeError: 'list' object has no attribute 'upper'"),
        (counting(pairs), "which has 2 fields (word, n)"),
    ],
    ids=["grouped", "used", "rows"],
)
async def test_a_function_that_returns_a_list_gets_the_hint_to_yield(
    local_cluster: LocalCluster, caplog: Logged, topology: Topology, says: str
) -> None:
    text = await shown(local_cluster, caplog, topology)
    assert says in text
    assert "yield each item to emit several" in text.splitlines()[-1]
    [running] = local_cluster.topologies.values()
    report = running.errors()[0]
    assert "yield each item to emit several" in report.traceback


async def test_a_list_that_is_wanted_gives_no_hint(local_cluster: LocalCluster, caplog: Logged) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("split", split).shuffle_grouping("lines")
    builder.set_bolt("count", Does(bad)).shuffle_grouping("split")
    text = await shown(local_cluster, caplog, builder.create_topology())
    assert "JSONDecodeError" in text
    assert "Hint" not in text


def raised(text: str) -> Exception:
    """An error with a frame of user code: this one."""
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def of_aiostorm(call: Callable[[], object], kind: type[Exception]) -> Exception:
    """The error of this call, with the frames of aiostorm alone."""
    with pytest.raises(kind) as caught:
        call()
    first = caught.value.__traceback__
    assert first is not None
    assert first.tb_next is not None
    return caught.value.with_traceback(first.tb_next.tb_next)  # this frame, and that of the lambda


def no_topology() -> Exception:
    return of_aiostorm(lambda: TopologyBuilder().create_topology(), TopologyError)


def test_errors_of_aiostorm_in_the_chain_are_left_out_but_not_what_is_behind_them() -> None:
    for link in ("__cause__", "__context__"):
        first, middle = raised("the first"), no_topology()
        assert own_frames(middle) == "", "alone its text is enough"
        last = raised("the last")
        setattr(last, link, middle)
        assert own_frames(last).count("Error: ") == 1
        for behind in ("__cause__", "__context__"):
            middle = no_topology()
            setattr(middle, behind, first)
            setattr(last, link, middle)
            text = own_frames(last)
            assert text.index("ValueError: the first") < text.index("ValueError: the last")
            assert files_of(text) == ["test_frames.py"] * 2
            assert text.startswith("Traceback")
            assert "ValueError: the first" in own_frames(middle), "also if it is the one that was raised"


def test_the_parts_of_a_group_are_shown_also_where_it_has_no_frames() -> None:
    group = ExceptionGroup("two", [no_topology(), raised("in a part")])
    assert "ValueError: in a part" in own_frames(group)
    last = raised("the last")
    last.__cause__ = group
    assert "ValueError: in a part" in own_frames(last)


def test_errors_that_lead_to_each_other_are_shown_once() -> None:
    one, other = raised("one"), raised("other")
    one.__context__, other.__context__ = other, one
    text = own_frames(one)
    assert (text.count("ValueError: one"), text.count("ValueError: other")) == (1, 1)


def test_an_error_that_aiostorm_did_not_expect_is_shown_with_its_innermost_frame() -> None:
    text = own_frames(of_aiostorm(lambda: Fields("a", "a"), ValueError))
    assert files_of(text) == ["fields.py"]
    assert "ValueError: field names must be distinct" in text
    assert own_frames(KeyError("never raised")) == "KeyError: 'never raised'"


class SlowError(Exception):
    """Its text comes from another process, as that of Spark's errors."""

    def __init__(self) -> None:
        self.shown = 0

    def __str__(self) -> str:
        self.shown += 1
        return "a long text"


def in_short(error: Exception) -> None:
    try:
        raise error
    except SlowError:
        raise StoreError("in short") from None


def test_the_text_of_a_suppressed_context_is_not_asked_for() -> None:
    slow = SlowError()
    with pytest.raises(StoreError) as raised:
        in_short(slow)
    assert "in short" in own_frames(raised.value)
    assert slow.shown == 0
