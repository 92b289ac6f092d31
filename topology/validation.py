"""Validation: finds every mistake of a topology at once, each with its component and advice.

Three passes: each declaration by itself (id, parallelism, component, outputs, config), each subscription against its
source (stream, fields, grouping), and the graph (spouts, inputs, bolts that no spout reaches).

Storm: validateIds and validateComponent in StormCommon, validateStructure in Nimbus.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from .components import BasicBolt, Bolt, Component, Spout, Windowed
from .config_keys import PER_COMPONENT, nearest
from .errors import ConfigError, TopologyError
from .functions import FunctionBolt, FunctionSpout
from .key_range_inputs import by_key_ranges, by_window_key
from .names import DEAD_LETTER_STREAM, DEFAULT_STREAM, NAME, NAME_RULE
from .snapshot_config import GUARANTEES
from .state_checks import declared_state, keyed_output_problems, state_problems
from .streams import DEAD_LETTER_FIELDS, StreamDecl, StreamId, read_outputs
from .time_flow import TimeRole, Windowing
from .topology import ComponentSpec, Kind, Subscription
from .values import Setting

if TYPE_CHECKING:
    from .config import Config
    from .fields import Fields
    from .groupings import Grouping
    from .values import Unchecked

_METHODS = {
    "spout": ("open", "next_tuple", "ack", "fail", "activate", "deactivate", "close"),
    "bolt": ("prepare", "execute", "execute_batch", "execute_arrow", "cleanup"),
}


@dataclass(slots=True)
class Declaration:
    """A user's declaration of one component, unchecked."""

    id: Unchecked
    kind: Kind
    template: Unchecked
    parallelism: Unchecked
    inputs: list[Subscription] = field(default_factory=list[Subscription])
    config: dict[str, Setting] = field(default_factory=dict[str, Setting])
    problems: list[str] = field(default_factory=list[str])

    @property
    def label(self) -> str:
        """The component's name in messages."""
        return f"{self.kind} {self.id!r}"

    def take_keywords(self, keywords: Mapping[str, Setting]) -> None:
        """Take settings that were given as keywords. An unknown keyword is a mistake, since it would have no effect."""
        if not keywords:
            return
        from .config import field_keys

        for name, value in keywords.items():
            if name in field_keys() or "." in name:
                self.config[name] = value
            else:
                self.problems.append(_no_keyword(name))


def _no_keyword(name: str) -> str:
    if name in ("conf", "config", "settings"):
        return f"{name}=… is no setting; give each setting as a keyword (max_retries=3), or use set_config({{…}})"
    like = nearest(name, [*PER_COMPONENT, "parallelism"])
    hint = f"; did you mean {like}?" if like is not None else ""
    return f"{name}=… is no setting{hint} (a value of your own needs a key with a dot: set_config({{'my.{name}': …}}))"


def check(declarations: Sequence[Declaration], config: Config | None) -> tuple[dict[str, ComponentSpec], list[str]]:
    """The checked components, and every mistake. If there are mistakes, the components must not be used."""
    specs: dict[str, ComponentSpec] = {}
    instances: dict[str, Component | None] = {}
    problems: list[str] = []
    for declaration in declarations:
        found = _check_id(declaration, specs)
        component, more = _instance(declaration)
        found += more + declaration.problems
        outputs: dict[str, StreamDecl] = {}
        settings = declaration.config
        if component is not None:
            outputs, more = read_outputs(component.all_outputs())
            found += more + _check_component(declaration, component, outputs)
            own: Unchecked = component.config
            if isinstance(own, Mapping):
                settings = {**cast("Mapping[str, Setting]", own), **settings}
            else:
                found.append(f"config must be a mapping, not {own!r}")
        found += _check_config(settings, config)
        state = None if component is None else declared_state(declaration.kind, component)
        found += state_problems(declaration.kind, state, declaration.inputs)
        role = TimeRole() if component is None else component.time_role
        inputs = by_window_key(role.key if state is None else None, by_key_ranges(state, declaration.inputs))
        if declaration.kind == "spout":
            outputs[DEAD_LETTER_STREAM] = StreamDecl(DEAD_LETTER_FIELDS)
        problems += [f"{declaration.label}: {problem}" for problem in found]
        # Of two components with the same id, the first is checked further; an invalid id cannot be subscribed to.
        if isinstance(declaration.id, str) and declaration.id not in specs:
            specs[declaration.id] = ComponentSpec(
                declaration.id,
                declaration.kind,
                declaration.template,
                declaration.parallelism,
                inputs,
                outputs,
                settings,
                role,
                component is not None and component.on_driver,
                state,
                {} if component is None else {each: tuple(component.refused(each)) for each in GUARANTEES},
                () if component is None else component.keyed_output,
            )
            instances[declaration.id] = component
    problems += _follow_inputs(specs, instances)
    for spec in specs.values():
        problems += [f"{spec.kind} {spec.id!r}: {problem}" for problem in _check_inputs(spec, specs, instances)]
    problems += _check_graph(specs)
    counted = {name: spec for name, spec in specs.items() if type(spec.parallelism) is int}
    return specs, problems + keyed_output_problems(counted, config)


def _check_id(declaration: Declaration, specs: Mapping[str, ComponentSpec]) -> list[str]:
    name, parallelism = declaration.id, declaration.parallelism
    problems: list[str] = []
    if not isinstance(name, str) or not NAME.fullmatch(name):
        problems.append(f"an id must be {NAME_RULE}")
    elif name.startswith("__"):
        problems.append("ids that start with '__' belong to the framework")
    elif name in specs:
        problems.append("declared twice; ids must be different")
    if isinstance(parallelism, bool) or not isinstance(parallelism, int):
        problems.append(f"parallelism must be a whole number, not {parallelism!r}")
    elif parallelism < 1:
        problems.append(f"parallelism must be at least 1, not {parallelism}")
    return problems


def _instance(declaration: Declaration) -> tuple[Component | None, list[str]]:
    """One instance to check: the template itself, or one made by the factory."""
    template = declaration.template
    if isinstance(template, Component):
        return template, []
    decorator = f"@{declaration.kind}"
    if not callable(template):
        problem = (
            f"{template!r} is not a {declaration.kind}: give an instance, a class, a function without arguments that "
            f"makes one, or a function decorated with {decorator}"
        )
        return None, [problem]
    name = getattr(template, "__name__", repr(template))
    is_component = inspect.isclass(template) and issubclass(template, Component)
    try:
        needed = [p for p in inspect.signature(template).parameters.values() if _needed(p)]
    except (TypeError, ValueError):  # a builtin without a signature
        needed = []
    if needed:
        advice = (
            f"give an instance ({name}(…)) or a lambda"
            if is_component
            else f"decorate it with {decorator}, or give a factory without arguments"
        )
        return None, [f"{name} needs arguments ({', '.join(p.name for p in needed)}): {advice}"]
    try:
        made = template()
    except TopologyError as error:
        return None, [f"{name}() raised: {problem}" for problem in error.problems]
    except Exception as error:
        return None, [f"{name}() raised {type(error).__name__}: {error}"]
    if not isinstance(made, Component):
        if inspect.iscoroutine(made):
            made.close()
        return None, [
            f"{name}() made something of type {type(made).__name__}, not a component; was {decorator} forgotten?"
        ]
    return made, []


def _needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _check_component(declaration: Declaration, component: Component, outputs: Mapping[str, StreamDecl]) -> list[str]:
    kind, name = declaration.kind, type(component).__name__
    is_spout = isinstance(component, Spout | FunctionSpout)
    is_bolt = isinstance(component, Bolt | BasicBolt | FunctionBolt | Windowed)
    if kind == "spout" and not is_spout:
        other = "a bolt; use set_bolt" if is_bolt else "not a spout; derive from Spout"
        return [f"{name} is {other}"]
    if kind == "bolt" and not is_bolt:
        other = "a spout; use set_spout" if is_spout else "not a bolt; derive from Bolt or BasicBolt"
        return [f"{name} is {other}"]
    if isinstance(component, FunctionBolt | FunctionSpout):
        problems = [
            f"a function emits on its default stream only, but declares {stream!r}; write a class instead"
            for stream in outputs
            if stream != DEFAULT_STREAM
        ]
        if component.blocking and component.is_async:
            problems.append("blocking=True is for def functions; an async def is never run in a thread")
        return problems
    if isinstance(component, Windowed):
        return []  # it reports its own mistakes when its inputs are known
    problems = _missing_methods(component, name)
    for method in _METHODS[kind]:
        called = getattr(component, method, None)
        if component.blocking and inspect.iscoroutinefunction(called):
            problems.append(f"{name}.{method} is async, but blocking=True is for def methods only")
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            problems.append(
                f"{name}.{method} has a yield, so calling it does nothing; use collector.emit, or a @{kind} function"
            )
    return problems


def _missing_methods(component: Component, name: str) -> list[str]:
    if isinstance(component, Spout):
        return [f"{name} defines no next_tuple"] if _inherits(component, "next_tuple", Spout) else []
    base = Bolt if isinstance(component, Bolt) else BasicBolt
    if base is Bolt and hasattr(component, "execute_arrow"):
        return [f"{name} defines execute_arrow, which only a BasicBolt can: it has no Tuple to ack"]
    if _inherits(component, "execute", base) and not (
        hasattr(component, "execute_batch") or hasattr(component, "execute_arrow")
    ):
        return [f"{name} defines neither execute nor execute_batch (nor execute_arrow)"]
    return []


def _inherits(component: Component, method: str, base: type) -> bool:
    """Is a method still the base class's?"""
    return getattr(type(component), method) is getattr(base, method) and method not in getattr(
        component, "__dict__", {}
    )


def _check_config(settings: Mapping[str, Setting], config: Config | None) -> list[str]:
    if not settings:
        return []
    from .config import Config, component_config

    try:
        component_config(config or Config(), settings)
    except ConfigError as error:
        return [f"config: {problem}" for problem in error.problems]
    return []


def _follow_inputs(specs: dict[str, ComponentSpec], instances: Mapping[str, Component | None]) -> list[str]:
    """Add outputs that depend on inputs, sources first."""
    waiting = {
        spec.id: component for spec in specs.values() if (component := instances[spec.id]) and component.outputs_follow
    }
    problems: list[str] = []
    while ready := [name for name in waiting if not any(s.source.component in waiting for s in specs[name].inputs)]:
        for name in ready:
            spec = specs[name]
            outputs, more = read_outputs(waiting.pop(name).all_outputs(_fields_read(spec, specs)))
            problems += [f"{spec.kind} {name!r}: {problem}" for problem in more]
            specs[name] = replace(spec, outputs={**spec.outputs, **outputs})
    return problems + [
        f"bolt {name!r}: its outputs depend on its inputs, and these depend on it; declare its outputs"
        for name in waiting
    ]


def _fields_read(spec: ComponentSpec, specs: Mapping[str, ComponentSpec]) -> dict[StreamId, Fields]:
    """The fields of all its existing inputs."""
    sources = [subscription.source for subscription in spec.inputs]
    emitters = {source: specs.get(source.component) for source in sources}
    return {
        source: emitter.outputs[source.stream].fields
        for source, emitter in emitters.items()
        if emitter is not None and source.stream in emitter.outputs
    }


def _check_inputs(
    spec: ComponentSpec, specs: Mapping[str, ComponentSpec], instances: Mapping[str, Component | None]
) -> list[str]:
    problems: list[str] = []
    known: dict[StreamId, Fields] = {}
    visited: set[StreamId] = set()
    for subscription in spec.inputs:
        source = subscription.source
        names: tuple[Unchecked, ...] = (source.component, source.stream)
        if not all(isinstance(name, str) for name in names):
            problems.append(f"a grouping needs the id of a component and a stream's name, not {source!r}")
            continue
        text = f"{subscription.kind.replace('_', ' ')} grouping of {source.component!r}"
        if source.stream != DEFAULT_STREAM:
            text += f" stream {source.stream!r}"
        if source in visited:
            problems.append(f"{text}: it already reads this stream")
        visited.add(source)
        if subscription.kind == "custom":
            problems += [f"{text}: {problem}" for problem in _check_custom(subscription.make)]
        emitter = specs.get(source.component)
        if emitter is None:
            problems.append(f"{text}: no such component{_hint(source.component, specs)}")
            continue
        if instances[emitter.id] is None:
            continue  # its outputs are unknown: that mistake is already reported
        decl = emitter.outputs.get(source.stream)
        if decl is None:
            problems.append(f"{text}: {_no_stream(emitter, source.stream)}")
            continue
        problems += [f"{text}: {problem}" for problem in _check_subscription(subscription, decl, instances[spec.id])]
        known[StreamId(emitter.id, source.stream)] = decl.fields
    component = instances[spec.id]
    return problems if component is None else problems + component.problems(known)


def _no_stream(emitter: ComponentSpec, stream: str) -> str:
    if stream == DEAD_LETTER_STREAM:
        return f"{emitter.id!r} is a bolt; only spouts have dead letters"
    if stream.startswith("__"):
        return f"streams that start with '__' belong to the framework; only {DEAD_LETTER_STREAM!r} can be read"
    declared = [name for name in emitter.outputs if not name.startswith("__")]
    late = ""
    if stream == "late" and emitter.time.windowing is not Windowing.NONE:
        late = "; its late tuples go to a stream with late=LatePolicy.STREAM"
    if not declared:
        return f"{emitter.id!r} declares no outputs{late}"
    return f"{emitter.id!r} declares no stream {stream!r}{late or _hint(stream, declared)}"


def _check_subscription(subscription: Subscription, decl: StreamDecl, consumer: Component | None) -> list[str]:
    problems: list[str] = []
    if subscription.kind == "direct" and not decl.direct:
        problems.append("the stream is not direct; declare it as direct(…) in outputs, or use another grouping")
    if subscription.kind != "direct" and decl.direct:
        problems.append("the stream is direct; read it with direct_grouping")
    if subscription.kind in ("fields", "partial_key") and not subscription.fields:
        problems.append(f"name at least one field; there are: {', '.join(decl.fields) or '(none)'}")
    names = decl.fields.names
    problems += [f"no field {name!r}{_hint(name, decl.fields)}" for name in subscription.fields if name not in names]
    if len(set(map(str, subscription.fields))) < len(subscription.fields):
        problems.append("a field is named twice")
    if isinstance(consumer, FunctionBolt) and not consumer.arrow and not consumer.accepts(len(decl.fields)):
        takes = (
            f"{consumer.min_args}"
            if consumer.min_args == consumer.max_args
            else (
                f"at least {consumer.min_args}"
                if consumer.max_args is None
                else f"{consumer.min_args} to {consumer.max_args}"
            )
        )
        problems.append(
            f"function {consumer.name!r} takes {takes} value(s), but the stream has {len(decl.fields)} field(s): "
            f"{', '.join(decl.fields)}"
        )
    return problems


def _check_custom(make: Callable[[], Grouping]) -> list[str]:
    """Make a custom grouping, to check that it can be made."""
    try:
        make()
    except TopologyError as error:
        return list(error.problems)
    except Exception as error:
        return [f"the grouping cannot be made for an emitting task: {type(error).__name__}: {error}"]
    return []


def _hint(name: object, candidates: Iterable[object]) -> str:
    names = [candidate for candidate in candidates if isinstance(candidate, str)]
    like = nearest(name, names) if isinstance(name, str) else None
    if like is not None:
        return f"; did you mean {like!r}?"
    return f"; there are: {', '.join(names)}" if names else ""


def _check_graph(specs: Mapping[str, ComponentSpec]) -> list[str]:
    spouts = [spec.id for spec in specs.values() if spec.kind == "spout"]
    if not spouts:
        return ["the topology has no spout: nothing would ever be emitted"]
    consumers: dict[str, list[str]] = {}
    for spec in specs.values():
        for source in _known_sources(spec, specs):
            consumers.setdefault(source, []).append(spec.id)
    reached = set(spouts)
    ahead = list(spouts)
    while ahead:
        for consumer in consumers.get(ahead.pop(), ()):
            if consumer not in reached:
                reached.add(consumer)
                ahead.append(consumer)
    problems: list[str] = []
    for spec in specs.values():
        if spec.kind == "bolt" and not spec.inputs:
            problems.append(f"bolt {spec.id!r}: it reads nothing; call a grouping on what set_bolt returned")
        elif spec.id not in reached and len(_known_sources(spec, specs)) == len(spec.inputs):
            problems.append(f"bolt {spec.id!r}: no spout reaches it, so it would never get a tuple")
    return problems


def _known_sources(spec: ComponentSpec, specs: Mapping[str, ComponentSpec]) -> list[str]:
    """The existing components that a bolt reads: the others are already reported."""
    names: list[Unchecked] = [subscription.source.component for subscription in spec.inputs]
    return [name for name in names if isinstance(name, str) and name in specs]
