"""Outline: a topology of which only the graph is known, made of `pictures.graph_document`: to be shown, not to be run.

Another program sends what its topology looks like, and never code: the components of an outline cannot be created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from .fields import Fields
from .streams import StreamDecl, StreamId
from .topology import ComponentSpec, Subscription, Topology

if TYPE_CHECKING:
    from .values import Unchecked

_NO_CODE: Final = "this topology runs in another program: only its graph is known here"


def outlined(document: Unchecked) -> Topology:
    """The topology of a document. ValueError if it is not what `pictures.graph_document` makes."""
    try:
        components = [_component(one) for one in document["components"]]
        name = document["topology"]
        if name is not None and not isinstance(name, str):
            raise TypeError(f"its name is {name!r:.100}")
        return Topology({spec.id: spec for spec in components}, name)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"it is not the graph of a topology: {type(error).__name__}: {error}") from error


def _component(found: Mapping[str, Any]) -> ComponentSpec:
    kind, component, tasks = found["kind"], _text(found["id"]), found["tasks"]
    if kind not in ("spout", "bolt") or not isinstance(tasks, int):
        raise ValueError(f"{component}: its kind is {kind!r:.100}, with {tasks!r:.100} tasks")
    outputs = {
        _text(name): StreamDecl(Fields(*map(_text, declared["fields"])), bool(declared["direct"]))
        for name, declared in found["outputs"].items()
    }
    inputs = tuple(
        Subscription(
            StreamId(_text(one["component"]), _text(one["stream"])),
            component,
            _text(one["grouping"]),
            tuple(map(_text, one["fields"])),
            _no_code,
        )
        for one in found["inputs"]
    )
    template: Callable[[], Any] = _no_code
    return ComponentSpec(component, kind, template, tasks, inputs, outputs)


def _text(value: Unchecked) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name is {value!r:.100}")
    return value


def _no_code() -> NoReturn:
    raise RuntimeError(_NO_CODE)
