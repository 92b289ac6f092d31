"""Profiles: the last ones of a topology, of all its processes: on demand, or of stalls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..runtime import Profile

KEPT: Final = 20


class Profiles:
    """The last profiles. That of a stall is replaced while it grows. May be used from several threads."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, float], Profile] = {}

    def keep(self, worker: str, profile: Profile) -> None:
        """A profile of a worker, or a longer one of the same stall."""
        kept = dict(self._kept)
        kept[worker, profile.begun_at_s] = replace(profile, worker=worker)
        while len(kept) > KEPT:
            del kept[min(kept, key=lambda key: key[1])]
        self._kept = kept

    def last(self) -> list[Profile]:
        """The last one first."""
        return sorted(self._kept.values(), key=lambda each: each.begun_at_s, reverse=True)
