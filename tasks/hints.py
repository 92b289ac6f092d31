"""Hints: for a common mistake, a line in the error report that says what to do instead.

A plain `@bolt` function that returns a list emits one row, whose value is the list. The next bolt then fails, with an
error about a list that its author did not expect.
"""

from __future__ import annotations

from typing import Final

from ..topology import DEFAULT_STREAM, EmitError, FunctionBolt, Topology, Tuple

YIELD_EACH: Final = "yield each item to emit several"

_LIKELY: Final = (TypeError, AttributeError, EmitError)
"""Errors of code that receives a list and expects one of its items."""


def hint(topology: Topology, component: str, error: BaseException, tup: object) -> str:
    """A guess at the cause of an error on a tuple, or on a row that a component emits; empty if there is none."""
    source, stream, values = component, DEFAULT_STREAM, tup
    if isinstance(tup, Tuple):
        source, stream, values = tup.source_component, tup.stream, tup.values
    if not isinstance(error, _LIKELY) or stream != DEFAULT_STREAM:
        return ""
    if not isinstance(values, tuple) or len(values) != 1 or not isinstance(values[0], list):
        return ""
    spec = topology.components.get(source)
    bolt = None if spec is None else spec.template
    if not isinstance(bolt, FunctionBolt) or bolt.style != "function" or bolt.arrow:
        return ""
    return f"Hint: {source} returned a list, which is one row with one value: {YIELD_EACH}."
