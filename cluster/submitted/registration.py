"""Registration: what a parent writes to the store: that it runs, how the topology is, and its last errors.

    register ─► /parents/NAME is of this process ─► update, when something has changed ─► remove
                   ▲ waits while it is of another one: two never run one topology

1. The node is ephemeral: it ends with the session. The next parent on the same machine need not wait for that: it sees
   that the process has ended, and takes its place.
2. Updates are made one after the other, each of the record before it: two tasks of the parent write it, and a commit
   takes time.
3. Errors outlive the process: the next parent goes on with them. They are written at most each ERRORS_S, and texts are
   cut until all fit into one node.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..coordination import (
    MAX_VALUE_BYTES,
    CoordinationError,
    Create,
    Delete,
    NoNodeError,
    Operation,
    Put,
    RefusedError,
)
from ..nimbus import ERRORS, PARENTS, ErrorEntry, ErrorsRecord, ParentRecord, RecordError, pack, path_of, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..coordination import Coordination

MOST_ERRORS: Final = 200
TEXT_CHARS: Final = 1_000
SHORT_CHARS: Final = 150
"""Of a text, when the whole record would be too large otherwise."""

ERRORS_S: Final = 5.0


class Registration:
    """The nodes of one parent. All methods raise UnavailableError and SessionLostError."""

    def __init__(self, coordination: Coordination, name: str, record: ParentRecord) -> None:
        self.record = record
        self._coordination = coordination
        self._path = path_of(PARENTS, name)
        self._errors_path = path_of(ERRORS, name)
        self._errors: list[ErrorEntry] = []
        self._errors_s = float("-inf")
        self._has_news = False
        self._updating = asyncio.Lock()

    async def register(self, has_ended: Callable[[ParentRecord], bool]) -> bool:
        """Make the node; False: another process has it. `has_ended`: is that process known not to run any more?"""
        operations: list[Operation] = [Create(self._path, pack(self.record), ephemeral=True)]
        before = await self._coordination.get(self._path)
        if before is not None and before.session == self._coordination.session:
            # It was made by a commit of which no answer came; what it says now may be of an earlier attempt.
            operations = [Put(self._path, pack(self.record), before.version)]
        elif before is not None:
            if not has_ended(unpack(ParentRecord, self._path, before.value)):
                return False
            operations.insert(0, Delete(self._path, before.version))  # its session would end later
        try:
            await self._coordination.commit(operations)
        except RefusedError:  # another one was faster
            return False
        node = await self._coordination.get(self._errors_path)
        if node is not None:
            try:
                self._errors = list(unpack(ErrorsRecord, self._errors_path, node.value).errors)
            except RecordError:  # of a later version: replaced by those of now
                self._errors = []
        return True

    async def update(self, change: Callable[[ParentRecord], ParentRecord]) -> None:
        """Write what `change` makes of the record, if it is another one. NoNodeError: it is not of this process."""
        async with self._updating:
            record = change(self.record)
            record = replace(record, degraded=record.degraded[:TEXT_CHARS])
            if record != self.record:
                await self._coordination.commit([Put(self._path, pack(record)), Put(PARENTS, b"")])
                self.record = record

    def add_errors(self, errors: Iterable[ErrorEntry]) -> None:
        """More errors, in the order of their times."""
        for error in errors:
            self._errors.append(replace(error, text=error.text[:TEXT_CHARS], where=error.where[:SHORT_CHARS]))
            self._has_news = True
        del self._errors[:-MOST_ERRORS]

    async def write_errors(self, now_s: float, *, at_once: bool = False) -> None:
        """Write the errors, if there are new ones and it is time."""
        if not self._has_news or (now_s - self._errors_s < ERRORS_S and not at_once):
            return
        value = packed_errors(self._errors)
        try:
            await self._coordination.commit([Put(self._errors_path, value)])
        except NoNodeError:
            await self._coordination.commit([Create(self._errors_path, value)])
        self._errors_s, self._has_news = now_s, False

    async def remove(self) -> None:
        """The topology does not run here any more."""
        try:
            await self._coordination.commit([Delete(self._path)])
        except RefusedError:
            return


def packed_errors(errors: list[ErrorEntry]) -> bytes:
    """The errors as the value of a node: cut, and the oldest left out, until they fit."""
    for chars in (TEXT_CHARS, SHORT_CHARS):
        try:
            return pack(ErrorsRecord(tuple(replace(error, text=error.text[:chars]) for error in errors)))
        except RecordError:
            continue
    while errors:
        errors = errors[len(errors) // 4 + 1 :]
        try:
            return pack(ErrorsRecord(tuple(replace(error, text=error.text[:SHORT_CHARS]) for error in errors)))
        except RecordError:
            continue
    raise CoordinationError(f"no errors fit into {MAX_VALUE_BYTES:,} bytes")
