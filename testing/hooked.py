"""Hooked: the same component, with a hook of the test in each of its tasks.

The hook is attached before user code runs, also to a generator spout (which has no `open` of its own), and in addition
to the hooks that the component and its configuration have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ..topology import Component, ComponentSpec, FunctionSpout, TaskHook, TopologyContext


def hooked(spec: ComponentSpec, make_hook: Callable[[], TaskHook]) -> ComponentSpec:
    """A component whose every instance has a hook that `make_hook` makes."""

    def make() -> Component:
        component = spec.create()
        if isinstance(component, FunctionSpout):
            _hook_generator(component, make_hook)
        else:
            _hook_method(component, "open" if spec.kind == "spout" else "prepare", make_hook)
        return component

    return replace(spec, template=make)


def _hook_method(component: Component, method: str, make_hook: Callable[[], TaskHook]) -> None:
    original: Callable[..., Awaitable[None] | None] = getattr(component, method)

    def with_hook(context: TopologyContext, *collector: Any) -> Awaitable[None] | None:
        context.add_task_hook(make_hook())
        return original(context, *collector)

    vars(component)[method] = with_hook  # also of a frozen dataclass


def _hook_generator(component: FunctionSpout, make_hook: Callable[[], TaskHook]) -> None:
    function, wants_context = component.fn, component.wants_context

    def with_hook(context: TopologyContext) -> Any:
        context.add_task_hook(make_hook())
        return function(context) if wants_context else function()

    component.fn, component.wants_context = with_hook, True
