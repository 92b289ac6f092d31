"""The guarantee of a topology, and the settings of its snapshots.

| topology.guarantee | what a row does to the results |
|---|---|
| at-least-once | once or more: a message that fails is emitted again (the acker) |
| exactly-once | once: all state is restored from the last snapshot, and sources repeat what came after it |
| at-most-once | once or not at all: nothing is tracked |

From: Flink's checkpointing options; JStorm's transaction.* and Storm's topology.state.* keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

from pydantic import BaseModel, BeforeValidator

from .liveness_config import no_flag, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..runtime import Given
    from .config import Config

Guarantee = Literal["at-least-once", "exactly-once", "at-most-once"]

GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)

_Count = Annotated[int, BeforeValidator(no_flag)]
_Number = Annotated[float, BeforeValidator(no_flag)]


class SnapshotConfig(BaseModel):
    """The settings of the guarantee in Config."""

    guarantee: Guarantee = setting(
        "at-least-once",
        "What a row does to the results, failures or not: at-least-once, exactly-once or at-most-once.",
        "topology.guarantee",
    )
    state_dir: str | None = setting(
        None,
        "Folder, or URL of fsspec, for snapshots (exactly-once); None: .aiostorm/state/NAME.",
        "topology.state.dir",
        min_length=1,
    )
    snapshot_interval_ms: _Number = setting(
        1000.0,
        "Milliseconds between two snapshots, or more if they would cost more than snapshot_max_share.",
        "topology.snapshot.interval.ms",
        "topology.state.checkpoint.interval.ms",
        ge=1,
    )
    snapshot_max_share: _Number = setting(
        0.03,
        "Largest share of a process's time for snapshots; the interval grows instead.",
        "topology.snapshot.max.share",
        gt=0,
        le=1,
    )
    snapshot_timeout_ms: _Number = setting(
        60_000.0, "Milliseconds after which a snapshot is given up.", "topology.snapshot.timeout.ms", gt=0
    )
    snapshot_keep: _Count = setting(
        3, "Snapshots that are kept; savepoints are never removed.", "topology.snapshot.keep", ge=1
    )
    state_quota_mb: _Count | None = setting(
        None,
        "Mebibytes that the kept snapshots may have together; more: snapshots fail, and data goes on. None: no limit.",
        "topology.state.quota.mb",
        ge=1,
        le=2**40,
    )
    snapshot_failures_max: _Count = setting(
        3,
        "Snapshots in a row that may fail before all tasks are rolled back to the last good one.",
        "topology.snapshot.failures.max",
        ge=1,
    )
    sink_held_max_rows: _Count = setting(
        1_000_000,
        "Rows that a task of a sink may hold for a snapshot, with exactly-once; then spouts wait until one succeeds.",
        "topology.sink.held.max.rows",
        ge=1,
    )
    sink_held_max_bytes: _Count = setting(
        256 * 1024 * 1024,
        "The same in bytes, which are estimated.",
        "topology.sink.held.max.bytes",
        ge=1,
    )
    state_on_error: Literal["rollback", "skip"] = setting(
        "rollback",
        "With exactly-once, what happens when a row raises: rollback (and try again, then fail), or skip the row.",
        "topology.state.on.error",
    )


def guarantee_conflicts(config: Config, written: Mapping[str, Given]) -> list[str]:
    """Settings that cannot be together with the guarantee; `written`: those that the user has set."""
    if config.guarantee == "at-least-once" or not config.acker_executors:
        return []
    ackers, guarantee = written["acker_executors"], written["guarantee"]
    problem = (
        f"{ackers} cannot be together with {guarantee}: only at-least-once has ackers. Leave out {ackers.key} (or set "
        f"it to null) for {config.guarantee}, or leave out {guarantee.key} for at-least-once"
    )
    return [problem]
