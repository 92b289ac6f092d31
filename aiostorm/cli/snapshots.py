"""Snapshots: those in a folder or below a URL, for people and for programs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ..runtime import StoreError
from ..state import ListedSnapshot, list_snapshots, open_store
from .errors import CommandError
from .report import table


def read_snapshots(place: str) -> list[ListedSnapshot]:
    """Read and check all snapshots in a place, the oldest first. CommandError if it cannot be read."""

    async def read() -> list[ListedSnapshot]:
        store = open_store(place, shared=True)
        try:
            return await list_snapshots(store)
        finally:
            await store.close()

    if "://" not in place and not os.path.isdir(place):
        raise CommandError(f"{place}: there is no such folder; --state of the run, or .aiostorm/state/NAME, names it")
    try:
        return asyncio.run(read())
    except StoreError as error:
        raise CommandError(str(error)) from error


def as_text(place: str, found: Sequence[ListedSnapshot]) -> str:
    """A line for each snapshot, one for all together, and one for each problem."""
    if not found:
        return f"{place}: no snapshots"
    rows = [
        (str(each.number), "?", "", "", "damaged", "")
        if not each.topology
        else (str(each.number), _time(each), f"{each.size_bytes:,}", each.topology, _kind(each), _components(each))
        for each in found
    ]
    text = table(rows, ("number", "taken", "bytes", "topology", "kind", "tasks"), frozenset({0, 2}))
    problems = [f"snapshot {each.number} cannot be restored: {each.problem}" for each in found if each.problem]
    return "\n".join([text, f"together: {total_bytes(found):,} bytes", *problems])


def as_json(place: str, found: Sequence[ListedSnapshot]) -> str:
    """One JSON document."""
    snapshots: list[dict[str, Any]] = [
        {**asdict(each), "size_bytes": each.size_bytes, "taken": _time(each) if each.topology else None}
        for each in found
    ]
    return json.dumps({"place": place, "snapshots": snapshots, "total_bytes": total_bytes(found)}, indent=2)


def total_bytes(found: Sequence[ListedSnapshot]) -> int:
    """Of the blobs of all snapshots; what several need counts once."""
    return sum(each.new_bytes for each in found)


def _time(snapshot: ListedSnapshot) -> str:
    return datetime.fromtimestamp(snapshot.taken_s, UTC).isoformat(sep=" ", timespec="seconds")


def _kind(snapshot: ListedSnapshot) -> str:
    kind = "savepoint" if snapshot.savepoint else "snapshot"
    return f"{kind}, damaged" if snapshot.problem else kind


def _components(snapshot: ListedSnapshot) -> str:
    return ", ".join(f"{part.component}: {part.tasks}" for part in snapshot.components)
