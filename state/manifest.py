"""Manifest: what belongs to a snapshot. It is written last: a snapshot without one does not exist.

    m-<number> = aiostorm-manifest <format> <bytes of the JSON> <crc32>\\n{"number": …, "topology": …, …}

1. The checksum covers format, size and JSON: a damaged manifest, or half of one, is a DamagedError that names it.
2. A manifest of a newer format, of another topology, or with another number than its name says, is refused by name.
3. The blobs of a task are a full snapshot and deltas after it, in the order in which they are applied, with the parts
   of each. A manifest that says otherwise cannot be made, or read.
4. Positions of spouts and handles of sinks are in the blobs of their tasks.

From: Flink's CompletedCheckpoint and its _metadata; JStorm's SnapshotState.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from .blobs import BlobName, BlobRef
from .errors import DamagedError, ForeignError

FORMAT: Final = 1
PREFIX: Final = "m-"

_MAGIC: Final = "aiostorm-manifest"
_NAME: Final = re.compile(r"m-([1-9][0-9]{0,17})")
_WRONG: Final = (ValueError, TypeError, KeyError, RecursionError)


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """A component when the snapshot was taken: its tasks, the key ranges they share, and what it declared as state.

    `n_ranges`: 0 without keyed state. `key`: the fields of a KeyedState. `version`: of the state; 0 without state.
    """

    component: str
    tasks: tuple[int, ...]
    n_ranges: int = 0
    key: tuple[str, ...] = ()
    version: int = 0

    def __post_init__(self) -> None:
        if not self.tasks or len(set(self.tasks)) != len(self.tasks):
            raise ValueError(f"the tasks of {self.component!r} are {self.tasks}")
        if self.n_ranges and self.n_ranges < len(self.tasks):
            raise ValueError(f"{len(self.tasks)} tasks of {self.component!r} cannot share {self.n_ranges} key ranges")


@dataclass(frozen=True, slots=True)
class TaskBlobs:
    """The saved state of a task. `sizes`: how many keys each section has after all blobs are applied."""

    task: int
    blobs: tuple[BlobRef, ...]
    sizes: Mapping[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        names = [BlobName.parse(blob.name) for blob in self.blobs]
        found = [name for name in names if name is not None and name.task == self.task]
        if len(found) != len(names):
            raise ValueError(f"blobs of task {self.task} have other names: {[blob.name for blob in self.blobs]}")
        if found and not (found[0].full and found[0].part == 0):
            raise ValueError(f"the blobs of task {self.task} do not begin with a full snapshot: {found[0]}")
        for one, other in pairwise(found):
            same = (one.number, one.full) == (other.number, other.full) and other.part == one.part + 1
            if not same and (other.full or other.part or other.number <= one.number):
                raise ValueError(f"of the blobs of task {self.task}, {other} cannot follow {one}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot. `taken_s`: seconds since 1970.

    A `savepoint` was asked for by a user, and is never removed.
    """

    number: int
    topology: str
    plan: tuple[ComponentPlan, ...]
    tasks: tuple[TaskBlobs, ...] = ()
    savepoint: bool = False
    taken_s: float = 0.0

    def __post_init__(self) -> None:
        if self.number < 1 or not self.topology:
            raise ValueError(f"a snapshot has a number from 1, and a topology: {self.number}, {self.topology!r}")
        planned = {task for part in self.plan for task in part.tasks}
        if len(planned) != sum(len(part.tasks) for part in self.plan):
            raise ValueError("a task is planned twice")
        tasks = [part.task for part in self.tasks]
        if len(set(tasks)) != len(tasks) or not set(tasks) <= planned:
            raise ValueError(f"tasks {sorted(set(tasks) - planned) or tasks} are not in the plan, or are there twice")
        for name in (BlobName.parse(blob.name) for part in self.tasks for blob in part.blobs):
            if name is not None and name.number > self.number:
                raise ValueError(f"{name} is newer than snapshot {self.number}")

    @property
    def name(self) -> str:
        """The name of its blob."""
        return manifest_name(self.number)

    @property
    def blob_names(self) -> frozenset[str]:
        """The blobs that it needs."""
        return frozenset(blob.name for part in self.tasks for blob in part.blobs)

    def component(self, name: str) -> ComponentPlan | None:
        """The plan of a component; None if the topology did not have it."""
        return next((part for part in self.plan if part.component == name), None)

    def of_task(self, task: int) -> TaskBlobs:
        """The saved state of a task: without blobs if it has none."""
        return next((part for part in self.tasks if part.task == task), TaskBlobs(task, ()))


def manifest_name(number: int) -> str:
    """The name of the manifest with this number."""
    return f"{PREFIX}{number}"


def manifest_number(name: str) -> int | None:
    """The number in the name of a manifest; None: it is not one."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def pack_manifest(manifest: Manifest) -> bytes:
    """The content of its blob."""
    return pack_framed(_MAGIC, FORMAT, _to_json(manifest))


def read_manifest(name: str, data: bytes | None, topology: str | None = None) -> Manifest:
    """A manifest of this topology (None: any). DamagedError; ForeignError: another topology's, or of a newer format."""
    found = unpack_framed(_MAGIC, FORMAT, name, data)
    try:
        manifest = _from_json(found)
    except _WRONG as error:
        raise DamagedError(name, f"the content is not a manifest: {error!r:.200}") from error
    if manifest.name != name:
        raise ForeignError(f"{name} is the manifest {manifest.name} under another name")
    if topology is not None and manifest.topology != topology:
        raise ForeignError(
            f"{name} is a snapshot of topology {manifest.topology!r}, not of {topology!r}: use another folder"
        )
    return manifest


# -- the frame ---------------------------------------------------------------------------------------------------------


def pack_framed(magic: str, version: int, content: Any) -> bytes:
    """JSON after a line with its size and checksum."""
    body = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    start = f"{magic} {version} {len(body)}"
    return f"{start} {_crc32(start, body)}\n".encode() + body


def unpack_framed(magic: str, version: int, name: str, data: bytes | None) -> Any:
    """The JSON, which is what was written. DamagedError; ForeignError for a newer version."""
    if data is None:
        raise DamagedError(name, "it is missing")
    line, _, body = data.partition(b"\n")
    start, _, crc32 = line.decode("ascii", "replace").rpartition(" ")
    if crc32 != _crc32(start, body):
        raise DamagedError(name, "its checksum is wrong: it is damaged, or was not written to its end")
    words = start.split(" ")
    if len(words) != 3 or words[0] != magic or words[2] != str(len(body)):
        raise DamagedError(name, f"it begins with {start!r:.100} instead of {magic!r}")
    if words[1] != str(version):
        raise ForeignError(f"{name} has format {words[1]}, and this aiostorm reads format {version}: use a newer one")
    try:
        return json.loads(body)
    except _WRONG as error:
        raise DamagedError(name, f"the content is not JSON: {error}") from error


def _crc32(start: str, body: bytes) -> str:
    return f"{zlib.crc32(body, zlib.crc32(start.encode('utf-8', 'replace'))):08x}"


# -- JSON --------------------------------------------------------------------------------------------------------------


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "number": manifest.number,
        "topology": manifest.topology,
        "savepoint": manifest.savepoint,
        "taken_s": manifest.taken_s,
        "plan": [[part.component, part.tasks, part.n_ranges, part.key, part.version] for part in manifest.plan],
        "tasks": [
            [
                part.task,
                [[blob.name, blob.size_bytes, blob.rows, blob.crc32] for blob in part.blobs],
                sorted(part.sizes.items()),
            ]
            for part in manifest.tasks
        ],
    }


def _from_json(found: Any) -> Manifest:
    plan = [
        ComponentPlan(_text(component), _ints(tasks), _int(n_ranges), tuple(map(_text, key)), _int(version))
        for component, tasks, n_ranges, key, version in found["plan"]
    ]
    tasks = [
        TaskBlobs(
            _int(task),
            tuple(BlobRef(_text(name), _int(size), _int(rows), _int(crc32)) for name, size, rows, crc32 in blobs),
            {_int(section): _int(size) for section, size in sizes},
        )
        for task, blobs, sizes in found["tasks"]
    ]
    if type(found["savepoint"]) is not bool or type(found["taken_s"]) not in (int, float):
        raise ValueError("savepoint and taken_s")
    return Manifest(
        _int(found["number"]),
        _text(found["topology"]),
        tuple(plan),
        tuple(tasks),
        found["savepoint"],
        float(found["taken_s"]),
    )


def _int(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.50} instead of an int of at least 0")
    return value


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(map(_int, values))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.50} instead of a text")
    return value
