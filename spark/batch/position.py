"""Batch position: which chunks a batch spout has emitted, in the snapshots of its task (exactly once).

    snapshot ─► position: the header (which source, which data) and Partitions.state(), where emitted is what acked is
    restore  ─► is the header the same? ─► the chunks of the position are not emitted again

1. A position has each emitted chunk, and no other: finished partitions as ranges, begun ones with their chunks.
2. A position of another source or of other data is refused, and its error names what differs.
3. What is read again is compared with what was emitted: by Partitions, and by samples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ..errors import SparkSourceError
from .partitions import SavedProgress, merged

_VERSION: Final = 1


class BatchPosition:
    """Makes the positions of one task. `header`: plain data that must be the same after a restart."""

    def __init__(self, header: Mapping[str, Any], title: str) -> None:
        self._header = json.loads(json.dumps(header))
        self._title = title

    def of(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The position of this state."""
        return {"version": _VERSION, "header": self._header, "state": dict(state)}

    def restored(self, position: Any) -> SavedProgress:
        """What the chunks of a position are. SparkSourceError if it is of another source."""
        try:
            version, header, state = position["version"], position["header"], position["state"]
            if version != _VERSION:
                raise ValueError(f"version {version!r:.20}")
            saved = merged([state])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SparkSourceError(
                f"{self._title}: the position in the snapshot cannot be read ({error!s:.200}): was it made by another "
                "version of aiostorm, or by another spout? Begin with an empty state_dir"
            ) from error
        if changed := difference(header, self._header):
            raise SparkSourceError(
                f"{self._title}: the snapshot is of another source, or of other data: its {changed}; give each source "
                "and each day's data its own state_dir, or begin with an empty one"
            )
        return saved


def difference(found: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    """The first entry of a header that differs from the one that was found, in words; empty: none."""
    for key, now in json.loads(json.dumps(header)).items():
        if found.get(key) != now:
            return f"{key} was {_short(found.get(key))}, and is {_short(now)} now"
    return ""


def _short(value: object) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 300 else text[:300] + " …"
