"""Resources: objects that the tasks of one worker share: a connection pool, a client, a model. They are opened later.

    builder.resource("db", open_pool) ─► Resource ─► each worker: open_pool() entered ─► context.resource("db")

1. A function is declared, not its result: each worker calls it, so nothing is sent between processes.
2. It returns a context manager, whose `with` (or `async with`) value is the resource. A generator function with one
   yield also works.
3. It is called without arguments; if it needs one, it gets the WorkerContext.

Storm: IWorkerHook and TopologyBuilder.addWorkerHook, with start and shutdown methods; there, the hook itself must store
its objects where tasks find them (depart). From: aiohttp's cleanup_ctx, ASGI lifespans, pytest's fixtures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from .config_keys import nearest
from .errors import ResourceError
from .names import NAME, NAME_RULE
from .values import Function, ResourceValue, Unchecked

if TYPE_CHECKING:
    from .config import Config

Managed = AbstractAsyncContextManager[ResourceValue] | AbstractContextManager[ResourceValue]


class WorkerContext:
    """A resource's view of the worker that opens it. Storm: WorkerTopologyContext.

    `worker` is its name ("local": this process, without workers).
    """

    __slots__ = ("_resources", "_tasks", "config", "topology", "worker")

    def __init__(
        self,
        topology: str,
        worker: str,
        config: Config,
        tasks: Mapping[str, tuple[int, ...]],
        resources: Mapping[str, ResourceValue],
    ) -> None:
        self.topology = topology
        self.worker = worker
        self.config = config
        self._tasks = tasks
        self._resources = resources

    def tasks(self, component: str) -> tuple[int, ...]:
        """The ids of a component's tasks in this worker, ascending: for example for the size of a pool."""
        try:
            return self._tasks[component]
        except KeyError:
            raise KeyError(f"no component {component!r}; there are: {', '.join(sorted(self._tasks))}") from None

    def resource(self, name: str) -> ResourceValue:
        """A resource that was declared before this one. ResourceError if there is none."""
        return find_resource(
            name, self._resources, "is open yet (they are opened in the order in which they are declared)"
        )


@dataclass(frozen=True, slots=True)
class Resource:
    """A declared resource: its name, and the function that opens it. Made by `TopologyBuilder.resource`."""

    name: str
    make: Callable[[WorkerContext], object]

    def manager(self, context: WorkerContext) -> Managed:
        """Call its function. ResourceError if the result is not a context manager."""
        made = self.make(context)
        if isinstance(made, AbstractAsyncContextManager | AbstractContextManager):
            return cast("Managed", made)
        if inspect.iscoroutine(made):
            made.close()
        raise ResourceError(
            f"resource {self.name!r}: its function returned something of type {type(made).__name__}, not a context "
            "manager: let it yield the object for the tasks, and close that after the yield"
        )


def given_resource(name: str, value: ResourceValue) -> Resource:
    """A resource that already exists, for tests: it is neither opened nor closed."""

    @contextmanager
    def nothing_to_open() -> Generator[ResourceValue]:
        yield value

    return Resource(name, lambda _: nothing_to_open())


def find_resource(name: str, resources: Mapping[str, ResourceValue], missing: str = "is declared") -> ResourceValue:
    """A resource by its name. ResourceError with the existing names, or the most similar one."""
    if name in resources:
        return resources[name]
    like = nearest(str(name), resources)
    if like is not None:
        hint = f"; did you mean {like!r}?"
    elif resources:
        hint = f"; there are: {', '.join(resources)}"
    else:
        hint = ": builder.resource(name, function) declares one, and resources={name: …} gives one to a test"
    raise ResourceError(f"no resource {name!r} {missing}{hint}")


def check_resources(declared: Iterable[tuple[Unchecked, Unchecked]]) -> tuple[dict[str, Resource], list[str]]:
    """The resources by name, in order, and every mistake."""
    found: dict[str, Resource] = {}
    problems: list[str] = []
    for name, function in declared:
        wrong: list[str] = []
        if not isinstance(name, str) or not NAME.fullmatch(name):
            wrong.append(f"a name must be {NAME_RULE}")
        elif name in found:
            wrong.append("declared twice; names must be different")
        make, problem = _opener(function)
        if problem:
            wrong.append(problem)
        problems += [f"resource {name!r}: {text}" for text in wrong]
        if make is not None and not wrong:
            found[name] = Resource(name, make)
    return found, problems


def _opener(function: Unchecked) -> tuple[Callable[[WorkerContext], object] | None, str]:
    """A function that is called with the context, made from the user's function; or what is wrong with that one."""
    if not callable(function):
        advice = "give the function that makes it, not its result: each worker opens its own"
        return None, f"{function!r:.100} is not a function: {advice}"
    called = function
    while isinstance(called, partial):
        called = called.func
    if not (inspect.isroutine(called) or inspect.isclass(called)):
        called = type(called).__call__
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.iscoroutinefunction(called):
        advice = "yield it instead, and close it after the yield"
        return None, f"{name} is an async def that returns the open resource, so it can never be closed: {advice}"
    make: Function = function
    if inspect.isasyncgenfunction(called):
        make = asynccontextmanager(make)
    elif inspect.isgeneratorfunction(called):
        make = contextmanager(make)
    try:
        parameters: Collection[inspect.Parameter] = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        parameters = ()
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not needed:
        return lambda _: make(), ""
    if len(needed) > 1 or needed[0].kind is inspect.Parameter.KEYWORD_ONLY:
        names = ", ".join(p.name for p in needed)
        return None, f"{name} needs {names}, but gets at most the WorkerContext: bind the others (functools.partial)"
    return make, ""
