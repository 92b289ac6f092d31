"""Bolt errors: bolts whose `execute` raises when the fault script says so, before or after it has done its work.

The bolt is the user's own; only the instance that a task runs gets a wrapper around the method that the task calls.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...topology import Component, ComponentSpec, FunctionBolt, Topology
from .errors import SimulatedError

BEFORE, AFTER = "before", "after"


class BoltErrors:
    """Which components raise at their next tuple."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._armed: dict[str, str] = {}
        self.raised = 0

    def arm(self, components: list[str], choice: int) -> str:
        """Make one of these bolts raise at its next tuple; returns which one. (The wrappers check.)"""
        component = components[choice % len(components)]
        self._armed[component] = self._chance.choice((BEFORE, AFTER))
        return component

    def heal(self) -> None:
        """No bolt raises any more."""
        self._armed.clear()

    def with_errors(self, topology: Topology) -> Topology:
        """The topology, with bolts that check."""
        components = {
            spec.id: replace(spec, template=self._maker(spec)) if spec.kind == "bolt" else spec
            for spec in topology.components.values()
        }
        return replace(topology, components=components)

    def _maker(self, spec: ComponentSpec) -> Callable[[], Component]:
        def make() -> Component:
            component = spec.create()
            if isinstance(component, FunctionBolt):
                component.fn = self._wrapped(spec.id, component.fn, may_be_after=component.style == "function")
                return component
            for method in ("execute", "execute_batch", "execute_arrow"):
                if callable(getattr(component, method, None)):
                    setattr(component, method, self._wrapped(spec.id, getattr(component, method)))
            return component

        return make

    def _wrapped(self, component: str, method: Callable[..., Any], *, may_be_after: bool = True) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def execute_async(*args: Any) -> Any:
                self._raise_if_armed(component, BEFORE if may_be_after else None)
                result = await method(*args)
                self._raise_if_armed(component, AFTER)
                return result

            return execute_async

        @functools.wraps(method)
        def execute(*args: Any) -> Any:
            self._raise_if_armed(component, BEFORE if may_be_after else None)
            result = method(*args)
            if may_be_after and not inspect.isawaitable(result):
                self._raise_if_armed(component, AFTER)
            return result

        return execute

    def _raise_if_armed(self, component: str, moment: str | None) -> None:
        """`moment` None: at whichever moment was drawn."""
        armed = self._armed.get(component)
        if armed is not None and moment in (None, armed):
            del self._armed[component]
            self.raised += 1
            raise SimulatedError(f"the fault script says that {component!r} raises here")
