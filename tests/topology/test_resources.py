"""Declared resources: what is accepted, what is refused when the topology is built, and with which advice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Any

import pytest

from aiostorm import Config, ResourceError, Topology, TopologyBuilder, TopologyError, WorkerContext, bolt, spout
from aiostorm.topology import given_resource
from aiostorm.topology.resources import check_resources, find_resource

CONTEXT = WorkerContext("t", "worker-1", Config(), {}, {})


def built(*resources: tuple[Any, Any]) -> Topology:
    builder = TopologyBuilder()
    for name, function in resources:
        builder.resource(name, function)
    builder.set_spout("numbers", spout(outputs="n")(lambda: (yield 1)))
    builder.set_bolt("sink", bolt(lambda n: None)).shuffle_grouping("numbers")
    return builder.create_topology("t")


def plain() -> Iterator[str]:
    yield "plain"


async def asynchronous() -> AsyncIterator[str]:
    yield "asynchronous"


def with_context(context: WorkerContext) -> Iterator[str]:
    yield context.worker


def with_default(path: str = "here") -> Iterator[str]:
    yield path


def with_path(path: str, context: WorkerContext) -> Iterator[str]:
    yield f"{path} {context.worker}"


class Pool:
    def __enter__(self) -> str:
        return "pool"

    def __exit__(self, *details: object) -> None:
        """Nothing to do."""


class Makes:
    def __call__(self, context: WorkerContext) -> AbstractContextManager[str]:
        return nullcontext(context.topology)


FITS: dict[str, tuple[Callable[..., Any], str]] = {
    "generator": (plain, "plain"),
    "async generator": (asynchronous, "asynchronous"),
    "decorated generator": (contextmanager(plain), "plain"),
    "decorated async generator": (asynccontextmanager(asynchronous), "asynchronous"),
    "one that takes the context": (with_context, "worker-1"),
    "decorated, with the context": (contextmanager(with_context), "worker-1"),
    "one with a default": (with_default, "here"),
    "bound": (partial(with_path, "there"), "there worker-1"),
    "class": (Pool, "pool"),
    "lambda": (lambda: nullcontext("x"), "x"),
    "object that is called": (Makes(), "t"),
    "given": (given_resource("r", "fake").make, "fake"),
}


@pytest.mark.parametrize("kind", FITS)
async def test_functions_that_open_a_resource(kind: str) -> None:
    function, expected = FITS[kind]
    for _ in range(2):  # each worker, and each topology of a process, opens its own
        manager = built(("r", function)).resources["r"].manager(CONTEXT)
        if hasattr(manager, "__aenter__"):
            async with manager as found:
                assert found == expected
        else:
            with manager as found:
                assert found == expected


async def returns() -> None:
    """An async def without a yield."""


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "no name": ("", plain, "resource '': a name must be 1 to 128 letters"),
    "a strange name": ("a/b", plain, "resource 'a/b': a name must be"),
    "a number": (7, plain, "resource 7: a name must be"),
    "an object": ("r", Pool(), "is not a function: give the function that makes it, not its result"),
    "async def": ("r", returns, "returns is an async def that returns the open resource.*yield it instead"),
    "arguments": ("r", with_path, r"needs path, context, but gets at most the WorkerContext: bind .*functools.partial"),
    "a keyword": ("r", lambda *, path: nullcontext(path), "needs path, but gets"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_object_that_cannot_open_a_resource_is_an_error_of_the_topology(kind: str) -> None:
    name, function, advice = REFUSED[kind]
    with pytest.raises(TopologyError, match=advice) as refused:
        built((name, function))
    assert len(refused.value.problems) == 1


def test_a_name_is_declared_once() -> None:
    with pytest.raises(TopologyError, match="resource 'r': declared twice"):
        built(("r", plain), ("s", plain), ("r", asynchronous))


async def test_a_resource_that_is_no_context_manager_is_an_error() -> None:
    for function in (lambda: returns(), lambda: 7, StringIO):
        resource = built(("r", function)).resources["r"]
        if function is StringIO:
            with resource.manager(CONTEXT):  # a file is one
                continue
        with pytest.raises(ResourceError, match=r"resource 'r': its function returned .* not a context manager"):
            resource.manager(CONTEXT)
    with built(("r", lambda: closing(StringIO("a")))).resources["r"].manager(CONTEXT) as found:
        assert found.read() == "a"


def test_they_are_part_of_the_description_in_their_order() -> None:
    topology = built(("b", plain), ("a", plain))
    assert topology.describe().splitlines()[:3] == ["topology t", "  resource b", "  resource a"]
    assert list(replace(topology, name="u").resources) == ["b", "a"]


def test_a_context_has_the_tasks_of_the_worker_and_the_resources_that_are_open() -> None:
    context = WorkerContext("t", "worker-1", Config(), {"count": (3, 4)}, {"pool": 5, "client": 6})
    assert (context.tasks("count"), context.resource("pool")) == ((3, 4), 5)
    with pytest.raises(KeyError, match="no component 'lines'; there are: count"):
        context.tasks("lines")


@pytest.mark.parametrize(
    ("name", "resources", "hint"),
    [
        ("poll", {"pool": 5, "client": 6}, "no resource 'poll' is declared; did you mean 'pool'?"),
        ("xyz", {"pool": 5, "client": 6}, "no resource 'xyz' is declared; there are: pool, client"),
        ("xyz", {}, "no resource 'xyz' is declared: builder.resource(name, function) declares one"),
    ],
)
def test_a_resource_that_there_is_not_is_an_error_with_a_hint(name: str, resources: Any, hint: str) -> None:
    with pytest.raises(ResourceError) as caught:
        find_resource(name, resources)
    assert str(caught.value).startswith(hint)
    with pytest.raises(ResourceError, match="is open yet"):
        WorkerContext("t", "worker-1", Config(), {}, resources).resource(name)


def test_a_resource_with_a_mistake_is_not_declared() -> None:
    found, mistakes = check_resources([("pool", plain), ("pool", plain), ("a b", plain), ("client", 5)])
    assert (list(found), len(mistakes)) == (["pool"], 3)


def test_arguments_that_need_not_be_given_are_not_needed() -> None:
    def opened(*args: Any, size: int = 3, **more: Any) -> Any:
        yield len(args)

    found, mistakes = check_resources([("pool", opened)])
    assert mistakes == []
    with found["pool"].manager(CONTEXT) as value:  # type: ignore[union-attr]
        assert value == 0
