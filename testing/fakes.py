"""Fakes: a topology whose resources are objects of the test. They are neither opened nor closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..topology import Topology, given_resource, nearest
from .errors import ScriptError


def with_fakes(topology: Topology, fakes: Mapping[str, Any] | None) -> Topology:
    """`fakes`: name → what `context.resource(name)` returns; other resources are opened. ScriptError: unknown name."""
    for name in fakes or ():
        if name not in topology.resources:
            like = nearest(name, topology.resources)
            hint = f"did you mean {like!r}?" if like else f"there are: {', '.join(topology.resources) or 'none'}"
            raise ScriptError(f"resources: this topology has no resource {name!r}; {hint}")
    given = {name: given_resource(name, fake) for name, fake in (fakes or {}).items()}
    return replace(topology, resources={**topology.resources, **given})
