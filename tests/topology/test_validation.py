"""Every mistake of a topology: named with its component, with what to do, all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm.topology import (
    DEAD_LETTER_STREAM,
    BasicBolt,
    Bolt,
    Component,
    Config,
    Spout,
    TopologyBuilder,
    TopologyError,
    bolt,
    spout,
)
from aiostorm.topology.streams import read_outputs

from .parts import Count, Lines, Mine, Split


def problems(declare: Callable[[TopologyBuilder], Any], config: Config | None = None) -> tuple[str, ...]:
    """The mistakes of a topology with a good spout "lines" and what `declare` adds."""
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    declare(builder)
    with pytest.raises(TopologyError) as caught:
        builder.create_topology(config=config)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    return tuple(caught.value.problems)


def sink(name: str = "sink") -> Callable[[TopologyBuilder], Any]:
    return lambda builder: builder.set_bolt(name, Count)


@pytest.mark.parametrize("bad", ["", "a b", "ä", "x" * 129, 3, None, "a/b", ["a"]], ids=repr)
def test_an_id_is_short_and_plain(bad: Any) -> None:
    found = problems(lambda b: b.set_bolt(bad, Count).shuffle_grouping("lines"))
    assert found == (f"bolt {bad!r}: an id must be 1 to 128 letters, digits, '_', '.' or '-'",)


def test_ids_of_the_framework_and_ids_given_twice() -> None:
    assert problems(lambda b: b.set_bolt("__acker", Count).shuffle_grouping("lines")) == (
        "bolt '__acker': ids that start with '__' belong to the framework",
    )
    assert problems(lambda b: b.set_bolt("lines", Count).shuffle_grouping("lines")) == (
        "bolt 'lines': declared twice; ids must be different",
    )


@pytest.mark.parametrize(
    ("bad", "says"),
    [(0, "at least 1"), (-1, "at least 1"), ("2", "whole"), (1.5, "whole"), (True, "whole"), (None, "whole")],
)
def test_parallelism_is_a_whole_number_from_one(bad: Any, says: str) -> None:
    (problem,) = problems(lambda b: b.set_bolt("count", Count, bad).shuffle_grouping("lines"))
    assert problem.startswith("bolt 'count': parallelism must be ")
    assert says in problem
    assert repr(bad) in problem


def read(*arguments: Any, method: str = "shuffle_grouping", **more: Any) -> Callable[[TopologyBuilder], Any]:
    """A bolt "count" with this subscription."""
    return lambda builder: getattr(builder.set_bolt("count", Count), method)(*arguments, **more)


BAD_INPUTS: list[tuple[Callable[[TopologyBuilder], Any], str]] = [
    (read("lins"), "'lins': no such component; did you mean 'lines'?"),
    (read("x"), "'x': no such component; there are: lines, count"),
    (read("lines", stream="erors"), "'lines' declares no stream 'erors'; did you mean 'errors'?"),
    (read("count"), "'count': 'count' declares no outputs"),
    (
        read("lines", "lin", method="fields_grouping"),
        "'lines': no field 'lin'; did you mean 'line'?",
    ),
    (
        read("lines", "z", method="partial_key_grouping"),
        "'lines': no field 'z'; there are: line",
    ),
    (read("lines", 3, method="fields_grouping"), "'lines': no field 3; there are: line"),
    (read("lines", ["line", []], method="fields_grouping"), "'lines': no field []; there are: line"),
    (read("lines", "line", "line", method="fields_grouping"), "'lines': a field is named twice"),
    (read("lines", method="fields_grouping"), "'lines': name at least one field; there are: line"),
    (read("lines", method="partial_key_grouping"), "'lines': name at least one field; there are: line"),
    (read("lines", method="direct_grouping"), "'lines': the stream is not direct; declare it as direct(…) in outputs"),
    (read("lines", stream="asked"), "'lines' stream 'asked': the stream is direct; read it with direct_grouping"),
    (read("lines", stream="__tick"), "'__tick': streams that start with '__' belong to the framework; only '__dead_"),
    (read("lines", 7, method="custom_grouping"), "custom grouping of 'lines': 7 is not a Grouping; derive from"),
    (read("lines", lambda: 7, method="custom_grouping"), "made something of type int, not a Grouping"),
    (read("lines", Mine.choose, method="custom_grouping"), "grouping cannot be made for an emitting task: TypeError"),
    (read(["lines"]), "a grouping needs the id of a component and a stream's name, not "),
    (read("lines", stream=3), "a grouping needs the id of a component and a stream's name, not "),
]


@pytest.mark.parametrize(("declare", "expected"), BAD_INPUTS, ids=[message for _, message in BAD_INPUTS])
def test_a_grouping_that_does_not_fit_says_what_would(declare: Callable[[TopologyBuilder], Any], expected: str) -> None:
    found = [problem for problem in problems(declare) if "no spout reaches it" not in problem]
    assert len(found) == 1
    assert found[0].startswith("bolt 'count': ")
    assert expected in found[0]


def test_dead_letters_belong_to_spouts() -> None:
    def declare(builder: TopologyBuilder) -> None:
        builder.set_bolt("split", Split).shuffle_grouping("lines")
        builder.set_bolt("count", Count).shuffle_grouping("split", stream=DEAD_LETTER_STREAM)

    (problem,) = problems(declare)
    assert problem.endswith("'split' is a bolt; only spouts have dead letters")


def test_a_stream_is_read_once() -> None:
    assert problems(
        lambda b: b.set_bolt("count", Count).shuffle_grouping("lines").fields_grouping("lines", "line")
    ) == ("bolt 'count': fields grouping of 'lines': it already reads this stream",)


def test_the_graph_has_spouts_and_reaches_every_bolt() -> None:
    builder = TopologyBuilder()
    builder.set_bolt("a", Split).shuffle_grouping("b")
    builder.set_bolt("b", Split).shuffle_grouping("a")
    with pytest.raises(TopologyError, match="the topology has no spout"):
        builder.create_topology()
    with pytest.raises(TopologyError, match="the topology has no spout"):
        TopologyBuilder().create_topology()
    assert problems(sink()) == ("bolt 'sink': it reads nothing; call a grouping on what set_bolt returned",)

    def cycle(builder: TopologyBuilder) -> None:
        builder.set_bolt("a", Split).shuffle_grouping("b")
        builder.set_bolt("b", Split).shuffle_grouping("a")

    assert problems(cycle) == (
        "bolt 'a': no spout reaches it, so it would never get a tuple",
        "bolt 'b': no spout reaches it, so it would never get a tuple",
    )


class WithoutNext(Spout):
    pass


class WithoutExecute(Bolt):
    pass


class BasicWithoutExecute(BasicBolt):
    pass


class OnlyBatch(BasicBolt):
    def execute_batch(self, tuples: Any, collector: Any) -> None: ...


class Yielding(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> Any:
        yield tup


class AsyncBlocking(Bolt):
    blocking = True

    async def execute(self, tup: Any) -> None: ...


class AsyncYielding(Spout):
    async def next_tuple(self) -> Any:
        yield 1


class Raising(Bolt):
    def __init__(self) -> None:
        raise OSError("no disk")

    def execute(self, tup: Any) -> None: ...


class NeedsArguments(Bolt):
    def __init__(self, path: str, size: int = 3) -> None: ...

    def execute(self, tup: Any) -> None: ...


class Opened:
    """No component."""

    def __init__(self, path: str) -> None: ...


class OfBatches(Bolt):
    def execute_arrow(self, batch: Any) -> None: ...


def plain_function(line: str) -> str:
    return line


async def async_factory() -> Count:
    return Count()


@bolt("word")
def a_bolt(line: str) -> str:
    return line


@spout("line")
def a_spout() -> Any:
    yield "x"


BAD_COMPONENTS: list[tuple[str, Any, str]] = [
    ("bolt", Lines, "Lines is a spout; use set_spout"),
    ("spout", Count, "Count is a bolt; use set_bolt"),
    ("bolt", a_spout, "FunctionSpout is a spout; use set_spout"),
    ("spout", a_bolt, "FunctionBolt is a bolt; use set_bolt"),
    ("bolt", Component, "Component is not a bolt; derive from Bolt or BasicBolt"),
    ("spout", Component(), "Component is not a spout; derive from Spout"),
    ("spout", WithoutNext, "WithoutNext defines no next_tuple"),
    ("bolt", WithoutExecute, "WithoutExecute defines neither execute nor execute_batch"),
    ("bolt", BasicWithoutExecute(), "BasicWithoutExecute defines neither execute nor execute_batch"),
    ("bolt", Yielding, "Yielding.execute has a yield, so calling it does nothing"),
    ("spout", AsyncYielding, "AsyncYielding.next_tuple has a yield, so calling it does nothing"),
    ("bolt", AsyncBlocking, "AsyncBlocking.execute is async, but blocking=True is for def methods only"),
    ("bolt", Raising, "Raising() raised OSError: no disk"),
    ("bolt", NeedsArguments, "NeedsArguments needs arguments (path): give an instance (NeedsArguments(…)) or a lambda"),
    ("bolt", plain_function, "plain_function needs arguments (line): decorate it with @bolt"),
    ("bolt", Opened, "Opened needs arguments (path): decorate it with @bolt, or give a factory without arguments"),
    ("bolt", OfBatches, "OfBatches defines execute_arrow, which only a BasicBolt can"),
    ("bolt", lambda: 5, "<lambda>() made something of type int, not a component; was @bolt forgotten?"),
    ("bolt", async_factory, "async_factory() made something of type coroutine, not a component"),
    ("spout", 5, "5 is not a spout: give an instance, a class"),
    ("bolt", "examples:Count", "'examples:Count' is not a bolt"),
    ("bolt", dict, "dict() made something of type dict, not a component"),
]


@pytest.mark.parametrize(("kind", "template", "expected"), BAD_COMPONENTS, ids=[m for _, _, m in BAD_COMPONENTS])
def test_a_component_that_cannot_run_says_why(kind: str, template: Any, expected: str) -> None:
    def declare(builder: TopologyBuilder) -> None:
        if kind == "spout":
            builder.set_spout("x", template)
        else:
            builder.set_bolt("x", template).shuffle_grouping("lines")

    (problem,) = problems(declare)
    assert problem.startswith(f"{kind} 'x': {expected}")


def test_factories_and_batch_bolts_are_right() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", lambda: Lines())
    builder.set_bolt("batch", OnlyBatch).shuffle_grouping("lines")
    builder.set_bolt("partial", functools.partial(NeedsArguments, "x", size=3)).shuffle_grouping("lines")
    builder.set_bolt("instance", NeedsArguments("x")).shuffle_grouping("lines")
    assert len(builder.create_topology().components) == 4


OUTPUTS: list[tuple[Any, str]] = [
    ("a,b", "stream 'default': 'a,b' is one field name; did you mean Fields('a', 'b')?"),
    ((" a", "b"), "stream 'default': ' a' is one field name; did you mean Fields('a')?"),
    (["a", "a"], "stream 'default': field names must be distinct; given twice: a"),
    ({"s": 3}, "stream 's': expected Fields, a name, a list of names or direct(…), not int"),
    ({"s": ["a", ""]}, "stream 's': a field name is a non-empty string, not ''"),
    ({"s": ["a", 3]}, "stream 's': "),
    ({"a b": "x"}, "'a b' is not a stream name"),
    ({"__tick": "x"}, "'__tick' is not a stream name"),
    ({3: "x"}, "3 is not a stream name"),
    (7, "stream 'default': expected Fields"),
]


@pytest.mark.parametrize(("outputs", "expected"), OUTPUTS, ids=str)
def test_outputs_that_cannot_be_read_name_the_stream(outputs: Any, expected: str) -> None:
    class Emits(Split):
        pass

    Emits.outputs = outputs
    (problem,) = problems(lambda b: b.set_bolt("x", Emits).shuffle_grouping("lines"))
    assert problem.startswith(f"bolt 'x': outputs: {expected}")


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"config": {"max_retries": 3}}, "config=… is no setting; give each setting as a keyword (max_retries=3)"),
        ({"max_retrys": 3}, "max_retrys=… is no setting; did you mean max_retries?"),
        ({"parallelism_hint": 3}, "parallelism_hint=… is no setting; did you mean parallelism?"),
        (
            {"city": "Rome"},
            "city=… is no setting (a value of your own needs a key with a dot: set_config({'my.city'",
        ),
    ],
)
def test_an_unknown_keyword_is_a_mistake(keywords: dict[str, Any], says: str) -> None:
    for declare in (
        lambda b: b.set_bolt("split", Split, **keywords).shuffle_grouping("lines"),
        lambda b: b.set_bolt("split", Split).shuffle_grouping("lines").set_config(**keywords),
    ):
        (problem,) = problems(declare)
        assert problem.startswith(f"bolt 'split': {says}")


def test_keys_with_dots_may_be_keywords() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines, **{"my.city": "Rome", "topology.max.retries": 3})
    assert builder.create_topology().components["lines"].config == {"my.city": "Rome", "topology.max.retries": 3}


def test_settings_of_a_component_are_checked_with_the_topology_config() -> None:
    def declare(builder: TopologyBuilder) -> None:
        split = builder.set_bolt("split", Split, workers=2, turn_max_ms=-1).shuffle_grouping("lines")
        split.set_config({"topology.max.spout.pendin": 3, "my.key": 1})

    found = problems(declare)
    assert len(found) == 3
    for problem, expected in zip(
        found,
        (
            "workers is a setting of the whole topology; it cannot be set for one component",
            "topology.max.spout.pendin (component): no such setting; did you mean topology.max.spout.pending?",
            "turn_max_ms = -1 (component): Input should be greater than 0",
        ),
        strict=True,
    ):
        assert problem == f"bolt 'split': config: {expected}"
    (problem,) = problems(
        lambda b: b.set_bolt("split", Split, mailbox_low_mark=0.5).shuffle_grouping("lines"),
        Config(mailbox_high_mark=0.4),
    )
    assert (
        "mailbox_high_mark = 0.4 (keyword) must be more than 0.5, the value of mailbox_low_mark (component)" in problem
    )

    class Odd(Split):
        config = 3  # type: ignore[assignment]

    (problem,) = problems(lambda b: b.set_bolt("split", Odd).shuffle_grouping("lines"))
    assert problem == "bolt 'split': config must be a mapping, not 3"


def test_a_function_bolt_takes_the_fields_of_what_it_reads() -> None:
    @bolt
    def two(a: str, b: str) -> None: ...

    @bolt
    def some(a: str, b: str = "", *more: str) -> None: ...

    @bolt
    def up_to_two(a: str, b: str = "") -> None: ...

    (problem,) = problems(lambda b: b.set_bolt("x", two).shuffle_grouping("lines"))
    assert problem == (
        "bolt 'x': shuffle grouping of 'lines': function 'two' takes 2 value(s), but the stream has 1 field(s): line"
    )
    (problem,) = problems(lambda b: b.set_bolt("x", up_to_two).shuffle_grouping("lines", stream=DEAD_LETTER_STREAM))
    assert "takes 1 to 2 value(s), but the stream has 6 field(s)" in problem
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("x", some).shuffle_grouping("lines").shuffle_grouping("lines", stream="errors")
    builder.set_bolt("y", two).shuffle_grouping("lines", stream="errors")
    assert len(builder.create_topology().bolts) == 2


def test_a_function_emits_on_its_default_stream() -> None:
    @bolt(outputs={"default": "a", "other": "b"})
    def two_streams(line: str) -> None: ...

    (problem,) = problems(lambda b: b.set_bolt("x", two_streams).shuffle_grouping("lines"))
    assert problem == (
        "bolt 'x': a function emits on its default stream only, but declares 'other'; write a class instead"
    )


def test_an_async_function_cannot_be_blocking() -> None:
    @bolt("a", blocking=True)
    async def waits(line: str) -> None: ...

    (problem,) = problems(lambda b: b.set_bolt("x", waits).shuffle_grouping("lines"))
    assert "blocking=True is for def functions" in problem
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    for number, fine in enumerate((bolt(blocking=True)(print), bolt(waits.fn), bolt(print))):
        builder.set_bolt(f"bolt{number}", fine).shuffle_grouping("lines")
    assert len(builder.create_topology().components) == 4


def test_every_mistake_comes_at_once_and_once() -> None:
    def declare(builder: TopologyBuilder) -> None:
        builder.set_bolt("a", Raising, 0).shuffle_grouping("nope").fields_grouping("lines")
        builder.set_bolt("b", Split).shuffle_grouping("a")  # nothing is known of what a emits: no second mistake
        builder.set_bolt("a", Split).shuffle_grouping("lines")

    assert len(problems(declare)) == 5


@pytest.mark.parametrize(
    "name", ["$late", "late$", "$metrics", "a@b", "x#1", "a,b", "late-tuples", "late_tuples", "{a}"]
)
def test_streams_may_have_the_names_that_storm_allows(name: str) -> None:
    outputs, problems = read_outputs({name: "x"})
    assert not problems
    assert name in outputs


@pytest.mark.parametrize("name", ["$la te", "a:b", "a/b", "a\\b", "a\nb", "'a'", "", "n" * 129])
def test_names_with_blanks_quotes_and_separators_are_refused(name: str) -> None:
    _, problems = read_outputs({name: "x"})
    assert "is not a stream name" in problems[0]
