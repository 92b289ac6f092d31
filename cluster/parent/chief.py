"""Chief: who has the stations of a topology, as they see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ..messages import Connect, GaveUp, Load, Seen

if TYPE_CHECKING:  # a station knows its chief, too
    from .station import Station


class Chief(Protocol):
    """Who has the stations of a topology."""

    @property
    def mode(self) -> str:
        """How the spouts are to be."""
        ...

    @property
    def target(self) -> str:
        """What its workers may load."""
        ...

    @property
    def code(self) -> Mapping[str, str]:
        """What the topology is made of here (see fingerprint)."""
        ...

    def order(self, station: Station) -> Load:
        """What this worker is to load."""
        ...

    def connection(self, station: Station) -> Connect:
        """Whom it is to have links to."""
        ...

    async def reached(self, station: Station, step: str) -> None:
        """It has got so far; returns when all have, once."""
        ...

    async def turn(self, station: Station) -> None:
        """Returns when those that it is to dial listen."""
        ...

    def connected(self, station: Station) -> None:
        """It listens."""
        ...

    def ready(self, station: Station) -> None:
        """It works."""
        ...

    def died(self, station: Station, life: int) -> None:
        """That life of its process has ended."""
        ...

    def seen(self, station: Station, seen: Seen) -> None:
        """What a look has shown."""
        ...

    def gave_up(self, station: Station, told: GaveUp) -> None:
        """One of its tasks was given up."""
        ...

    def leaving(self, station: Station, within_s: float) -> None:
        """It was asked to end by somebody else."""
        ...

    def failed(self, error: Exception) -> None:
        """It can never work."""
        ...
