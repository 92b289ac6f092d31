"""Waiting for what was ordered: until a topology runs, or has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from .errors import NotRunningError
from .views import FAILED

if TYPE_CHECKING:
    from .views import TopologyInfo

T = TypeVar("T")


class Topologies(Protocol):
    """Where topologies are looked up: the cluster."""

    async def find(self, name: str) -> TopologyInfo | None: ...

    async def topology(self, name: str) -> TopologyInfo: ...


class Until(Protocol):
    """Looks again after each change of a topology, until something is found."""

    async def __call__(self, look: Callable[[], Awaitable[T | None]], name: str, /) -> T: ...


async def until_running(
    cluster: Topologies,
    until: Until,
    reason: Callable[[TopologyInfo], Awaitable[str]],
    name: str,
    timeout_s: float | None,
    generation: int,
) -> TopologyInfo | None:
    """See `Cluster.wait_running`. `reason`: why one does not run."""

    async def look() -> tuple[TopologyInfo | None] | None:
        found = await cluster.find(name)
        if found is not None and generation and found.runs and (why := found.refused(generation)):
            raise NotRunningError(why)
        if found is not None and found.state == FAILED and found.is_current and found.record.former is None:
            raise NotRunningError(f"topology {name!r} has failed: {await reason(found)}")
        return (found,) if found is None or found.runs or found.wanted == "KILLED" else None

    try:
        async with asyncio.timeout(timeout_s):
            return (await until(look, name))[0]
    except TimeoutError as error:
        if await cluster.find(name) is None:
            return None
        why = await reason(await cluster.topology(name))
        raise NotRunningError(f"topology {name!r} does not run after {timeout_s:g} s: {why}") from error


async def until_ended(cluster: Topologies, until: Until, name: str) -> None:
    """See `Cluster.wait_ended`."""
    first = await cluster.find(name)

    async def look() -> bool | None:
        found = await cluster.find(name)
        again = first is not None and found is not None and found.submitted_s != first.submitted_s
        return True if found is None or again else None

    await until(look, name)
