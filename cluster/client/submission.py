"""Submission: what the record of a topology is made of, and what it may be."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import getpass
import logging
import platform
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..code import add_files, archive_of
from ..names import check_name
from ..nimbus import merged_pins
from ..targets import parse_target
from .checking import CheckedTarget, check_target
from .errors import CheckError, ClusterError

if TYPE_CHECKING:
    from ..nimbus import TopologyRecord

log = logging.getLogger("aiostorm.client")

MAX_WORKERS: Final = 1_000
MAX_TASKS: Final = 100_000
DEFAULT_WORKERS: Final = 2
MIN_MEMORY_BYTES: Final = 64 * 1024**2
"""Python, and what a worker imports, take most of that."""

MAX_CORES: Final = 1_000

Pins = Mapping[str, Collection[str] | str]
"""Component → the labels of the nodes that alone may run its tasks; none: it is not pinned."""


def merged(before: TopologyRecord, given: TopologyRecord) -> TopologyRecord:
    """A topology with other code: what is not given is as before. A setting that is given ends its update.

    If the other code does not run, it holds again.
    """
    ended = {key: value for key, value in before.updates.items() if key in given.config}
    former = before.former
    return dataclasses.replace(
        before,
        updates={key: value for key, value in before.updates.items() if key not in ended},
        former=None if former is None else dataclasses.replace(former, config={**former.config, **ended}),
        target=given.target,
        arguments=given.arguments,
        blob=given.blob,
        config={**before.config, **given.config},
        workers=given.workers or before.workers,
        parallelism=given.parallelism,
        labels=given.labels or before.labels,
        pins=merged_pins(before.pins, given.pins),
        fewer=given.fewer or before.fewer,
        worker_memory_bytes=given.worker_memory_bytes or before.worker_memory_bytes,
        worker_cores=given.worker_cores or before.worker_cores,
    )


async def archive_with(code: Path | str | bytes | None, files: Sequence[Path | str]) -> bytes | None:
    """The code of a submission with its additional files, as one archive; None: there is neither. ArchiveError."""
    archive = code if isinstance(code, bytes) or code is None else await asyncio.to_thread(archive_of, Path(code))
    return await asyncio.to_thread(add_files, archive, [Path(file) for file in files]) if files else archive


def submitted(name: str, record: TopologyRecord, archive: bytes | None, *, replace: bool = False) -> dict[str, Any]:
    """What is submitted, as JSON takes it: for nimbus, and for the audit log."""
    return {
        "name": name,
        "target": record.target,
        "workers": record.workers or None,
        "arguments": list(record.arguments),
        "config": record.config,
        "parallelism": record.parallelism,
        "labels": sorted(record.labels),
        "fewer": record.fewer,
        "worker_memory_bytes": record.worker_memory_bytes,
        "worker_cores": record.worker_cores,
        "initial": record.wanted,
        "replace": replace,
        "code": archive is not None,
        **_named(record.pins),
    }


def rebalanced(
    name: str,
    workers: int | None,
    parallelism: Mapping[str, int],
    drain_s: float | None,
    pins: Mapping[str, frozenset[str]],
) -> dict[str, Any]:
    """What a rebalance orders, as JSON takes it: for nimbus, and for the audit log."""
    given = {"name": name, "workers": workers, "parallelism": dict(parallelism), "drain_s": drain_s}
    return {**given, **_named(pins)}


def _named(pins: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """Pins as JSON takes them. Without any they are left out: a nimbus of an earlier version knows none."""
    return {"pins": {name: sorted(labels) for name, labels in pins.items()}} if pins else {}


def pins_of(given: Pins | None) -> dict[str, frozenset[str]]:
    """Pins as records have them; a single label may be given as text."""
    pins = given or {}
    return {name: frozenset((labels,) if isinstance(labels, str) else labels) for name, labels in pins.items()}


def settled_pins(
    given: Mapping[str, frozenset[str]], kept: Mapping[str, frozenset[str]], checked: CheckedTarget | None
) -> dict[str, frozenset[str]]:
    """The pins of a topology whose components are known, if it was checked. CheckError for one of no component.

    `kept`: of a topology whose code is replaced: those of components that are missing now end.
    """
    if checked is None:
        return dict(given)
    there = checked.components
    if unknown := [name for name, labels in given.items() if labels and name not in there]:
        raise CheckError(
            *(f"there is no component {name!r} to be pinned: there are {', '.join(there)}" for name in unknown)
        )
    return {**{name: frozenset[str]() for name in kept if name not in there}, **given}


async def check_plan(
    plan: TopologyRecord,
    workers: int,
    archive: bytes | None,
    *,
    kept: Mapping[str, int] | None = None,
    limit_s: float,
) -> CheckedTarget:
    """Import the target in a process of its own, and check it. `workers`: 0: as its settings or its code say."""
    settings = plan.config | {"topology.workers": workers} if workers else plan.config
    checked = await check_target(
        plan.target, plan.arguments, settings, archive, parallelism=plan.parallelism, kept=kept, timeout_s=limit_s
    )
    check_size(checked)
    warn_if_not_installed(checked, archive)
    return checked


def workers_of(given: int, config: Mapping[str, Any], checked: CheckedTarget | None) -> int:
    """How many workers: as ordered, as the settings say, as the topology's code says, or two."""
    found = (
        given or None,
        config.get("topology.workers"),
        None if checked is None else checked.workers,
        DEFAULT_WORKERS,
    )
    return check_workers(next(count for count in found if count is not None))


def check_request(name: str, target: str, *, replace: bool, check: bool, initial: str) -> None:
    """ValueError, ClusterError, TargetError for what cannot be submitted so."""
    if replace and (not name or initial != "ACTIVE"):
        raise ValueError("code is replaced in a topology that is named, and stays active or inactive as it is")
    if name:
        check_name(name)
    elif not check:
        raise ValueError("a topology that is not checked needs a name")
    if parse_target(target).file:
        raise ClusterError(
            f"{target} is a file of this machine: submit its folder as the code, and name the module: "
            "`--code FOLDER MODULE:topology` (code=)"
        )


def check_workers(count: int) -> int:
    """So many workers. ValueError for a number that a topology cannot have."""
    if not 1 <= count <= MAX_WORKERS:
        raise ValueError(f"a topology has 1 to {MAX_WORKERS:,} workers, not {count:,}")
    return count


def check_resources(memory_bytes: int, cores: float) -> None:
    """ValueError for what a worker cannot have."""
    if memory_bytes and memory_bytes < MIN_MEMORY_BYTES:
        least = MIN_MEMORY_BYTES // 1024**2
        raise ValueError(f"a worker needs {least} MiB of memory or more, not {memory_bytes / 1024**2:g} MiB")
    if not 0 <= cores <= MAX_CORES:
        raise ValueError(f"a worker may have 0 to {MAX_CORES:,} cores, not {cores}")


def check_size(checked: CheckedTarget) -> None:
    """ClusterError if it has more tasks than a topology may have."""
    if checked.tasks > MAX_TASKS:
        raise ClusterError(
            f"topology {checked.name!r} has {checked.tasks:,} tasks, and may have {MAX_TASKS:,}: lower the parallelism "
            "of its components (topology.max.task.parallelism)"
        )


def warn_if_not_installed(checked: CheckedTarget, archive: bytes | None) -> None:
    """Say that nodes may not find the module."""
    parts = Path(checked.file).parts
    if archive is None and checked.file and not {"site-packages", "dist-packages"}.intersection(parts):
        log.warning(
            "%s is not in site-packages, and no code is submitted: nodes find it only where they have the same file; "
            "submit its folder with --code (code=)",
            checked.file,
        )


def submitter() -> str:
    """Who submits: user and machine."""
    user = ""
    with contextlib.suppress(OSError, KeyError):  # a user without a name, as in a container
        user = getpass.getuser()
    return f"{user}@{platform.node()}"
