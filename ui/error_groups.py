"""Error groups: errors that are alike, as one. Two are alike in component, place, and text without its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from .model import ErrorGroup

if TYPE_CHECKING:
    from ..tasks import ErrorReport

_CHANGING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_MOST_CHARS: Final = 20_000
"""Of a traceback or a text: the page shows the end of longer ones."""


def grouped(errors: Iterable[ErrorReport]) -> tuple[ErrorGroup, ...]:
    """The groups, the one with the newest error first. The errors come in the order in which they happened."""
    found: dict[tuple[str, str, str], list[ErrorReport]] = {}
    for error in errors:
        alike = (error.component, error.where, _CHANGING.sub("0", error.error[:_MOST_CHARS]))
        found.setdefault(alike, []).append(error)
    groups = [_group(alike) for alike in found.values()]
    return tuple(sorted(groups, key=lambda group: (-group.last_s, group.component, group.where, group.error)))


def _group(alike: list[ErrorReport]) -> ErrorGroup:
    last = max(alike, key=lambda error: error.time)
    return ErrorGroup(
        component=last.component,
        where=last.where,
        error=last.error[:_MOST_CHARS],
        count=len(alike),
        tasks=tuple(sorted({error.task for error in alike})),
        first_s=min(error.time for error in alike),
        last_s=last.time,
        on_tuple=None if last.tuple is None else last.tuple[:_MOST_CHARS],
        traceback=last.traceback[-_MOST_CHARS:],
    )
