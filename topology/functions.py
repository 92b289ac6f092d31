"""Functions as components: `@bolt` and `@spout` for the common case.

    @bolt(outputs="word")                    @spout(outputs="line")
    def split(line):                         async def lines():
        yield from line.split()                  async for line in reader: yield line

1. A function bolt is called with the values of the input tuple, one argument each. Its results are anchored to the
   input, which is acked when the function returns and failed when it raises.
2. A result is a tuple (or list) of values; with one declared field it is the value itself. A plain function that
   returns None emits nothing; a generator emits each value that it yields.
3. A function spout is called once per task; its yielded values are emitted, and the task is finished when it ends. It
   may have one required argument that is named `context` or annotated `TopologyContext`; any other is refused.
4. The decorated object can still be called as the plain function.
5. A function spout may yield a pyarrow.RecordBatch: it is one message. A function bolt with `arrow=True` receives one.
6. A function spout that yields the same items in the same order each time it is called can be repeated from a position,
   the number of items before it: `@spout(repeatable=True)`, or a keyword-only parameter `start=0`.
7. A function component emits only on its default stream. For several streams write a `BasicBolt` or a `Spout`.

Pass arguments of a run with a closure or `functools.partial`, since a component is made without arguments:

    def numbers(limit):                      numbers_10 = spout(outputs="n")(functools.partial(count_to, 10))
        @spout(outputs="n")
        def numbers():
            yield from range(limit)
        return numbers

Storm has no such thing; the style is that of Python's own frameworks (depart).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, overload

from .components import Component, Outputs
from .errors import TopologyError
from .fields import Fields

if TYPE_CHECKING:
    from .context import StateDeclaration
    from .snapshot_config import Guarantee
    from .streams import StreamDecl
    from .time_flow import TimeRole
    from .values import Declared, Function, Returned, Setting, Value

Style = Literal["function", "generator"]


class _FunctionComponent(Component):
    """The common base of function bolts and function spouts."""

    _by_name: ClassVar[tuple[str, ...]] = ()  # arguments that the framework gives by name

    def __init__(self, fn: Function, outputs: Outputs, blocking: bool, config: Mapping[str, Setting]) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.outputs = outputs  # type: ignore[misc] # declared per class elsewhere; here each function has its own
        self.config = dict(config)  # type: ignore[misc]
        self.blocking = blocking  # type: ignore[misc]
        self.name = getattr(fn, "__name__", None) or type(fn).__name__
        called = _called(fn)
        self.style: Style = (
            "generator" if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called) else "function"
        )
        self.is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        self.min_args, self.max_args = _arity(fn, self.name, self._by_name)

    def __call__(self, *args: Value, **kwargs: Value) -> Returned:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class FunctionBolt(_FunctionComponent):
    """A bolt made from a function of the input's values: see `bolt`.

    `fn` is the function, `style` "function" or "generator", `is_async` whether it is `async def`. `min_args` and
    `max_args` are the numbers of values that it takes (`max_args` is None for `*args`). `arrow`: it takes a
    RecordBatch. With `state`, it is called with `state=`, the state of its task.
    """

    _by_name = ("state",)

    def __init__(
        self,
        fn: Function,
        outputs: Outputs,
        blocking: bool,
        config: Mapping[str, Setting],
        arrow: bool = False,
        state: StateDeclaration | None = None,
    ) -> None:
        super().__init__(fn, outputs, blocking, config)
        self.arrow = arrow
        self.state = state  # type: ignore[misc] # declared per class elsewhere
        if ("state" in _keywords(fn)) != (state is not None):
            needs = "declares state=, but takes no" if state is not None else "takes a"
            problem = f"@bolt function {self.name!r} {needs} keyword-only argument `state`: write both, or neither"
            raise TopologyError([problem])
        if arrow and not self.accepts(1):
            problem = f"@bolt(arrow=True) function {self.name!r} must take one argument, the pyarrow.RecordBatch"
            raise TopologyError([problem])

    @property
    def time_role(self) -> TimeRole:
        """Its role in event time."""
        return replace(super().time_role, anchors=True)

    def accepts(self, count: int) -> bool:
        """Can the function be called with `count` values?"""
        return self.min_args <= count and (self.max_args is None or count <= self.max_args)


class FunctionSpout(_FunctionComponent):
    """A spout made from a generator function: see `spout`.

    `fn` is the function, `is_async` whether it is an async generator, `tracked` whether its tuples are tracked, and
    `wants_context` whether it takes the `TopologyContext`. `repeatable`: it yields the same items each time;
    `wants_start`: it takes the number of items to leave out.
    """

    _by_name = ("start",)

    def __init__(
        self,
        fn: Function,
        outputs: Outputs,
        tracked: bool,
        blocking: bool,
        config: Mapping[str, Setting],
        repeatable: bool = False,
    ) -> None:
        super().__init__(fn, outputs, blocking, config)
        self.tracked = tracked
        self.wants_start = _takes_start(fn)
        self.repeatable = repeatable or self.wants_start
        if self.style != "generator":
            raise TopologyError([f"@spout needs a generator function (one with yield); {self.name!r} is not one"])
        # Not an argument with a default value: that may be anything, as in `def numbers(limit=10)`.
        needed = _needed(fn)
        self.wants_context = len(needed) == 1 and _is_context(needed[0])
        if needed and not self.wants_context:
            raise TopologyError([_unbound(self.name, [p.name for p in needed])])

    def refused(self, guarantee: Guarantee) -> list[str]:
        """With exactly-once it must be repeatable."""
        if self.repeatable or guarantee != "exactly-once":
            return []
        problem = (
            f"@spout function {self.name!r} is called again after a failure, as exactly-once needs, but does not say "
            "that it can be repeated. If it yields the same items in the same order each time: @spout(…, "
            "repeatable=True), or a parameter `*, start=0`, the number of items to leave out. Else write a Spout with "
            "snapshot() and restore(position)"
        )
        return [problem]


@overload
def bolt(fn: Function, /) -> FunctionBolt: ...
@overload
def bolt(
    *fields: str | Fields | StreamDecl | list[str] | Mapping[str, Declared],
    outputs: Outputs = None,
    blocking: bool = False,
    config: Mapping[str, Setting] | None = None,
    arrow: bool = False,
    state: StateDeclaration | None = None,
) -> Callable[[Function], FunctionBolt]: ...
def bolt(
    *fields: Declared,
    outputs: Outputs = None,
    blocking: bool = False,
    config: Mapping[str, Setting] | None = None,
    arrow: bool = False,
    state: StateDeclaration | None = None,
) -> FunctionBolt | Callable[[Function], FunctionBolt]:
    """Make a bolt from a function, generator, async function or async generator of the input's values.

    `@bolt("word", "count")`, `@bolt(outputs="word")`, or bare `@bolt` for one that emits nothing. `blocking`: call it
    in the task's own thread. `config`: settings of this component only. `arrow`: the function takes a
    pyarrow.RecordBatch and returns one, None, or an iterator of them. `state`: `KeyedState(key=…)` or `ValueState(…)`;
    the function then has a keyword-only argument of that name: `def count(word, *, state)`. Raises TopologyError for a
    function that cannot be called with values alone.
    """
    if len(fields) == 1 and outputs is None and _is_function(fields[0]):
        return FunctionBolt(fields[0], None, blocking, config or {})
    declared = _outputs("bolt", fields, outputs)

    def made(fn: Function) -> FunctionBolt:
        return FunctionBolt(fn, declared, blocking, config or {}, arrow, state)

    return made


@overload
def spout(fn: Function, /) -> FunctionSpout: ...
@overload
def spout(
    *fields: str | Fields | StreamDecl | list[str] | Mapping[str, Declared],
    outputs: Outputs = None,
    tracked: bool = True,
    blocking: bool = False,
    config: Mapping[str, Setting] | None = None,
    repeatable: bool = False,
) -> Callable[[Function], FunctionSpout]: ...
def spout(
    *fields: Declared,
    outputs: Outputs = None,
    tracked: bool = True,
    blocking: bool = False,
    config: Mapping[str, Setting] | None = None,
    repeatable: bool = False,
) -> FunctionSpout | Callable[[Function], FunctionSpout]:
    """Make a spout from a generator or async generator function.

    `tracked`: each tuple gets a message id, is tracked, and is replayed when it fails. False: at most once.
    `repeatable`: each call yields the same items in the same order, as exactly-once needs; after a restart the items
    before the last snapshot are skipped. A function with a keyword-only parameter `start` is repeatable, too: it is
    called with the number of items to leave out, 0 at first. The rest is as in `bolt`. Raises TopologyError for a
    function without `yield`, or one that needs arguments.
    """
    if len(fields) == 1 and outputs is None and _is_function(fields[0]):
        return FunctionSpout(fields[0], None, tracked, blocking, config or {})
    declared = _outputs("spout", fields, outputs)

    def made(fn: Function) -> FunctionSpout:
        return FunctionSpout(fn, declared, tracked, blocking, config or {}, repeatable)

    return made


def _is_function(given: object) -> bool:
    return callable(given) and not isinstance(given, str | Fields)


def _outputs(decorator: str, fields: tuple[Declared, ...], outputs: Outputs) -> Outputs:
    """The declaration, given as `outputs=` or as positional field names."""
    if fields and outputs is not None:
        raise TopologyError([f"@{decorator}: give the fields either by position or as outputs=, not both"])
    if not fields:
        return outputs
    if len(fields) == 1:
        declared: Outputs = fields[0]
        return declared
    return fields


def _called(fn: Function) -> Function:
    """The function that runs when `fn` is called: `fn` itself, or the `__call__` of an object."""
    bare = fn
    while isinstance(bare, functools.partial):
        bare = bare.func
    return bare if inspect.isroutine(bare) or inspect.isclass(bare) else type(bare).__call__


def _needed(fn: Function) -> list[inspect.Parameter]:
    """The positional arguments without default values."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]


def _takes_start(fn: Function) -> bool:
    """Has it a keyword-only parameter `start`, with the default 0 or none, that no partial has bound?"""
    bare = fn
    while isinstance(bare, functools.partial):
        if "start" in bare.keywords:
            return False
        bare = bare.func
    try:
        start = inspect.signature(bare).parameters.get("start")
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    return start is not None and start.kind is start.KEYWORD_ONLY and start.default in (0, start.empty)


def _is_context(parameter: inspect.Parameter) -> bool:
    """Is it meant for the TopologyContext? Annotations may be text."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameter.name.strip("_") in ("context", "ctx", "") or text.rpartition(".")[2] == "TopologyContext"


def _unbound(name: str, needed: list[str]) -> str:
    """Advice about required arguments of a spout that have no value."""
    given = ", ".join(f"{argument}=…" for argument in needed if argument not in ("context", "ctx"))
    return (
        f"@spout function {name!r} needs {', '.join(needed)}, but a spout is called without arguments, or with "
        "one that is named context or annotated TopologyContext: bind the others, as in "
        f"spout(outputs=…)(functools.partial({name}, {given})), or define the spout inside a function that takes them"
    )


def _keywords(fn: Function) -> list[str]:
    """The keyword-only arguments without default values."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return []
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]


def _arity(fn: Function, name: str, given: Sequence[str]) -> tuple[int, int | None]:
    """The least and the greatest number of positional arguments (None: no limit)."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return 0, None
    by_name = [parameter for parameter in _keywords(fn) if parameter not in given]
    if by_name:
        problem = (
            f"function {name!r} needs {', '.join(by_name)} by keyword, but is called with values by position: bind it "
            "with functools.partial or a closure"
        )
        raise TopologyError([problem])
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(1 for p in positional if p.default is p.empty)
    unlimited = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return least, None if unlimited else len(positional)
