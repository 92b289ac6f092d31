"""Tuples made by hand, for functions of the user that take a tuple. For a bolt, `bolt_harness` is the better test.

They belong to no segment of a running topology and to no message.

Storm: Testing.testTuple, MkTupleParam.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..topology import DEFAULT_STREAM, Fields, Origin, Segment, Tuple
from .errors import ScriptError


def make_tuple(
    values: Sequence[Any],
    fields: str | Iterable[str] | None = None,
    *,
    stream: str = DEFAULT_STREAM,
    component: str = "component",
    task: int = 1,
) -> Tuple:
    """A tuple as a bolt receives it: `make_tuple(("the", 1), ("word", "count"))`.

    Without `fields` they are "field1", "field2", … ScriptError if there are not as many as values.
    """
    row = tuple(values)
    names = Fields(*(f"field{i}" for i in range(1, len(row) + 1))) if fields is None else Fields(fields)
    if len(names) != len(row):
        raise ScriptError(f"{row!r:.200} has {len(row)} values; the fields are: {', '.join(names) or '(none)'}")
    origin = Origin(component, task, stream, names)
    return Segment(origin, [row[0] if origin.bare else row]).tuple_at(0)
