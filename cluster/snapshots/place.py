"""SnapshotPlace: where a topology keeps its snapshots, and which of them it begins with.

    restore="latest"       the newest: sinks commit its rows again, which changes nothing
    an older one, or none  sinks have committed rows after it, and would write them again: refused, unless allowed

From: Flink, where a savepoint that is restored does not take back what sinks have committed since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from ...state import Keeper, ReopeningStore, RepeatedOutputError, StateError
from ...topology import ConfigError

if TYPE_CHECKING:
    from ...runtime import Store
    from ...state import Manifest
    from ...topology import Config

Restore = Literal["latest"] | int | None
"""The snapshot to begin with: the newest, the one with this number, or none."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a run begins. `repeat_output`: also if sinks write rows again that they have committed."""

    restore: Restore = "latest"
    repeat_output: bool = False


FOLDER: Final = os.path.join(".aiostorm", "state")
"""The folder for topologies without `topology.state.dir`."""


class SnapshotPlace:
    """The snapshots of one topology. `where`: a folder or a URL. `make_store` opens it.

    `incarnation`: differs for each process that uses the place. `config`: how many snapshots are kept, and their quota.
    `failed`: the newest snapshot that has failed, whose blobs `remove_failed` removes; 0: none.
    """

    def __init__(
        self, where: str, topology: str, incarnation: int, config: Config, make_store: Callable[[str], Store]
    ) -> None:
        self.where = where
        self.store = ReopeningStore(lambda: make_store(where))
        self.keeper: Keeper
        self.incarnation = incarnation
        self.failed = 0
        self._topology = topology
        self._config = config

    async def open(self) -> int:
        """Take the place over, or read it again. Returns the first free number. StateError, StoreError."""
        keeper = Keeper(self.store, self._topology, self.incarnation)
        free = await keeper.open()
        self.keeper = keeper
        self._set_limits()  # they may have changed meanwhile
        return free

    def update(self, config: Config) -> bool:
        """Keep as many snapshots, and of as many bytes, as it says from now on. Has that changed?"""
        before = self._config
        self._config = config
        self._set_limits()
        return (before.snapshot_keep, before.state_quota_mb) != (config.snapshot_keep, config.state_quota_mb)

    def _set_limits(self) -> None:
        self.keeper.keep, self.keeper.quota_bytes = self._config.snapshot_keep, quota_bytes_of(self._config)

    async def remove_failed(self) -> None:
        """Remove the blobs of snapshots that have failed, until none is noted. Never raises for the store."""
        while number := self.failed:
            self.failed = 0
            await self.keeper.remove_failed(number)

    async def choose(self, restore: Restore) -> Manifest | None:
        """The snapshot to begin with; None: begin from the start. StateError, StoreError."""
        if restore is None:
            return None
        if restore == "latest":
            return await self.keeper.latest()
        manifest = self.keeper.manifest(restore)
        await self.keeper.check(manifest)
        return manifest

    async def begin_with(self, beginning: Beginning, sinks: Sequence[str]) -> Manifest | None:
        """As `choose`, for a run that begins. RepeatedOutputError if `sinks` would write rows again."""
        found = await self.choose(beginning.restore)
        if beginning.restore != "latest" and sinks and not beginning.repeat_output:
            self._check_output(found, sinks)
        return found

    def _check_output(self, manifest: Manifest | None, sinks: Sequence[str]) -> None:
        number, newest = 0 if manifest is None else manifest.number, self.keeper.highest
        if newest <= number:
            return
        names = " and ".join(map(repr, sinks))
        if manifest is None:
            since, removed = "the start", "what they have written"
        else:
            taken = datetime.fromtimestamp(manifest.taken_s, UTC).isoformat(sep=" ", timespec="seconds")
            since, removed = f"snapshot {number}", f"what they have written since {taken}"
        raise RepeatedOutputError(
            f"topology {self._topology!r} would begin from {since}, and snapshot {newest} is newer: {names} would "
            "write rows again that were committed since. Continue from the newest one (--restore latest). Or remove "
            f"{removed}, or give them another place to write to, and add --repeat-output (submit: repeat_output=True)"
        )

    async def back_to(self, number: int | None) -> Manifest | None:
        """Snapshot `number`, which counts; if it is damaged, or it is not known what counts, the newest that is not."""
        if self.keeper.is_undecided:
            await self.open()
            return await self.keeper.latest()
        try:
            return await self.choose(number)
        except StateError:
            return await self.keeper.latest()

    async def close(self) -> None:
        """Release the place."""
        await self.store.close()


def quota_bytes_of(config: Config) -> int | None:
    """How many bytes the kept snapshots may have; None: any number."""
    return None if config.state_quota_mb is None else config.state_quota_mb * 1024 * 1024


def state_place(state_dir: str | None, topology: str) -> str:
    """The folder or URL of a topology's snapshots. A folder is an absolute path: workers may start elsewhere."""
    where = os.path.join(FOLDER, topology) if state_dir is None else os.path.expanduser(state_dir)
    return where if "://" in where else os.path.abspath(where)


def check_reach(state_dir: str | None, topology: str) -> None:
    """For workers on other machines: ConfigError if the place is a plain folder, which each machine has for itself."""
    where = state_place(state_dir, topology)
    if "://" not in where:
        what = f"is the folder {where}" if state_dir is not None else "is not set, so that snapshots go to a folder"
        raise ConfigError(
            f"topology.state.dir {what}, and topology {topology!r} has workers on other machines: they "
            "cannot see it. Use a URL that all machines reach: s3://…, gs://…, hdfs://…; for a folder that is mounted "
            f"at the same path on all of them, file://{where}"
        )
