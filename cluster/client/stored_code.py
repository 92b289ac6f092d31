"""Stored code: that of submitted topologies, which a record of the store names by its SHA-256."""

from __future__ import annotations

import asyncio
import dataclasses
import platform
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...runtime import boot_id, make_folders
from ..code import Blobs
from ..nimbus import CLUSTER, ClusterRecord, TopologyRecord, unpack
from .places import Here, check_code_place
from .reading import read_all

if TYPE_CHECKING:
    from ..coordination import Coordination
    from ..home import Home


class StoredCode:
    """The code of a cluster's topologies. BlobError, StoreError, UnavailableError."""

    def __init__(self, coordination: Coordination, home: Home) -> None:
        self._coordination = coordination
        self._home = home

    async def put(
        self, record: TopologyRecord, archive: bytes | None, write: Callable[[TopologyRecord], Awaitable[object]]
    ) -> None:
        """Store the code, if there is any, and then write the record that names it."""
        if archive is None:
            await write(record)
            return
        place = await self._place()
        if not place:
            here = Here(platform.node(), boot_id(), str(self._home.path))
            check_code_place(here, (await read_all(self._coordination)).supervisors)
            await asyncio.to_thread(make_folders, str(self._home.path), mode=0o700)  # private, as daemons want it
        async with Blobs(place or str(self._home.blobs)) as blobs:
            record = dataclasses.replace(record, blob=await blobs.put(archive))
            await write(record)
            if not await blobs.has(record.blob):  # it was removed just before it was named
                await blobs.put(archive)

    async def fetch(self, blob: str) -> bytes | None:
        """Code by its hash; None if that is empty: it is installed."""
        if not blob:
            return None
        async with Blobs(await self._place() or str(self._home.blobs)) as blobs:
            return await blobs.fetch(blob)

    async def _place(self) -> str:
        """Where the cluster keeps its code; empty: the home folder."""
        node = await self._coordination.get(CLUSTER)
        return "" if node is None else unpack(ClusterRecord, CLUSTER, node.value).blobs
