"""A journal in a store: records that are appended, synced, and found again after a crash. Numbers, for the tests.

Each record has its checksum: of what was not synced, a crash may leave a part, its end damaged.
"""

from __future__ import annotations

import struct
import zlib

from aiostorm.runtime import Store

_RECORD = struct.Struct("!IQI")


class Journal:
    """Numbers in the order in which they were added."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    async def open(self) -> list[int]:
        """What is there, cleaned of what is damaged."""
        data = await self._store.read(self._name) or b""
        found: list[int] = []
        for at in range(0, len(data) - _RECORD.size + 1, _RECORD.size):
            index, number, checksum = _RECORD.unpack_from(data, at)
            if index != len(found) or checksum != _checksum(index, number):
                break
            found.append(number)
        self._length = len(found)
        if len(data) != len(found) * _RECORD.size:
            await self._store.write(self._name, data[: len(found) * _RECORD.size])
        await self._store.sync()
        return found

    async def add(self, numbers: list[int]) -> None:
        """Append and sync."""
        records = b""
        for index, number in enumerate(numbers, self._length):
            records += _RECORD.pack(index, number, _checksum(index, number))
        await self._store.append(self._name, records)
        self._length += len(numbers)
        await self._store.sync()


def _checksum(index: int, number: int) -> int:
    return zlib.crc32(b"%d %d" % (index, number))
