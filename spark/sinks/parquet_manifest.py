"""Manifest: whether a folder holds all output of a job. Two files written last say so: a manifest of files, and
`_SUCCESS`.

    no manifest ─► files are written ─► the job ends well ─► _manifest.json ─► _SUCCESS
    a manifest, and a file arrives that it does not list:
        a stream that continues  ─► _SUCCESS is removed until the stream ends
        with overwrite=True      ─► the same; at the end the files of the manifest are removed, and a new one is written
        else                     ─► OutputExistsError

1. A file that the manifest lists has these contents: it is neither written again nor refused.
2. A stream continues if its batch comes after the last one that the manifest has of it.
3. Files that overwrite have the number of the coming manifest in their names. So each task, each worker and the next
   run after a crash know which files to remove. Nothing is removed before all new files are there.
4. Only files that the manifest lists are removed. Names that lead out of the folder are refused.
5. Every task leaves a receipt when it has ended and written all its rows. If one is missing, no manifest is written.

From: Hadoop's FileOutputCommitter (_SUCCESS), Spark's save modes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..errors import OutputExistsError, SinkError
from ..needs import require
from .parquet_names import SUFFIX, TEMPORARY_FOLDER, receipt_name

if TYPE_CHECKING:
    from .parquet_store import FileStore

MANIFEST: Final = "_manifest.json"
SUCCESS: Final = "_SUCCESS"
MAX_MANIFEST_BYTES: Final = 1 << 30
READERS: Final = 16
"""Footers that are read in parallel."""

_VERSION: Final = 1
_OURS: Final = re.compile(r"(?:part|rows)-.*\.parquet")
_BATCH: Final = b"aiostorm.batch"
_CHUNK: Final = b"aiostorm.chunk"


class FileEntry(NamedTuple):
    """A file. `name`: its path below the folder."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The output of a job. `generation`: how often the folder was overwritten; `streams`: the last batch of each."""

    topology: str
    component: str
    generation: int
    files: tuple[FileEntry, ...]
    streams: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def to_bytes(self) -> bytes:
        own = asdict(self) | {"files": [file._asdict() for file in self.files]}
        totals = {"rows": self.rows, "bytes": sum(file.bytes for file in self.files)}
        return json.dumps({"version": _VERSION, **own, **totals}, indent=1).encode()

    @classmethod
    def parsed(cls, data: bytes, path: str) -> Manifest:
        """Parse a manifest. SinkError if aiostorm did not write it."""
        try:
            found = json.loads(data)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']!r:.20}")
            files = tuple(
                FileEntry(_checked_name(file["name"]), int(file["rows"]), int(file["bytes"])) for file in found["files"]
            )
            streams = {str(name): int(batch) for name, batch in dict(found["streams"]).items()}
            return cls(str(found["topology"]), str(found["component"]), int(found["generation"]), files, streams)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SinkError(
                f"{path}/{MANIFEST} was not written by this version of aiostorm ({error!s:.200}): give the sink "
                "another path, or remove that file if the folder may be added to"
            ) from error


class OutputGuard:
    """Decides for one task whether a file may be written, and under which name. Blocking."""

    def __init__(self, store: FileStore, *, overwrite: bool) -> None:
        self._store = store
        self._overwrite = overwrite
        self.continues = False
        """Whether this run continues the one that has written the manifest."""
        self._known = False
        self._manifest: Manifest | None = None
        self._listed: frozenset[str] = frozenset()

    def admit(self, name: str, identity: Mapping[bytes, bytes]) -> str:
        """The name under which to write a file. OutputExistsError if the folder holds another run's data."""
        if not self._known:
            self._manifest = read_manifest(self._store)
            self._listed = frozenset(file.name for file in self._manifest.files) if self._manifest else frozenset()
            self._known = True
        found = self._manifest
        if found is None or (name in self._listed and not self._overwrite):
            return name
        if not self._overwrite and not self.continues and not _continues(found, identity):
            raise OutputExistsError(
                f"{self._store.root} holds all that an earlier run of {found.topology!r} has written "
                f"({len(found.files):,} files, {found.rows:,} rows), and this run brings other data: give it a folder "
                "of its own, or replace what is there with overwrite=True (it goes when all of the new is there); or "
                f"remove {MANIFEST} there, and it is added to"
            )
        self._store.remove(SUCCESS)
        return generation_name(name, found.generation + 1) if self._overwrite else name


def read_manifest(store: FileStore) -> Manifest | None:
    """The manifest of a folder; None if there is none."""
    data = store.read(MANIFEST, MAX_MANIFEST_BYTES)
    return None if data is None else Manifest.parsed(data, store.root)


def generation_name(name: str, generation: int) -> str:
    """The name of a file that overwrites."""
    return f"{name.removesuffix(SUFFIX)}-g{generation}{SUFFIX}"


def receipt(topology: str, component: str, task: int) -> str:
    """The file that a task leaves when it has written all its rows."""
    return f"{TEMPORARY_FOLDER}/{receipt_name(topology, component, task)}"


def finish(store: FileStore, topology: str, component: str, tasks: int, *, overwrite: bool) -> Manifest:
    """Write the manifest and `_SUCCESS`. SinkError if the receipt of a task is missing."""
    receipts = [receipt(topology, component, task) for task in range(tasks)]
    missing = sum(store.read(name, 1024) is None for name in receipts)
    if missing:
        raise SinkError(
            f"{store.root} is not marked as complete: {missing} of {tasks} tasks have not left a receipt that "
            "all their rows are written (is it the same folder for this program and for all workers?)"
        )
    before = read_manifest(store)
    manifest, replaced = _new_manifest(store, topology, component, before, overwrite=overwrite)
    for name in replaced:
        store.remove(name)
    store.replace(MANIFEST, manifest.to_bytes())
    store.replace(SUCCESS, b"")
    for name in receipts:
        store.remove(name)
    return manifest


def _new_manifest(
    store: FileStore, topology: str, component: str, before: Manifest | None, *, overwrite: bool
) -> tuple[Manifest, list[str]]:
    names = sorted(name for name in store.names() if _OURS.fullmatch(name.rpartition("/")[2]))
    generation, replaced = (before.generation, []) if before is not None else (1, [])
    if overwrite and before is not None:
        ending = generation_name(SUFFIX, generation + 1)
        newer = [name for name in names if name.endswith(ending)]
        if newer:  # else all files were there already
            names, generation = newer, generation + 1
            replaced = [file.name for file in before.files if not file.name.endswith(ending)]
    streams: dict[str, int] = {}
    files = []
    with ThreadPoolExecutor(READERS, thread_name_prefix="aiostorm-footers") as pool:
        for file, source, batch in pool.map(lambda name: _entry(store, name), names):
            files.append(file)
            if source:
                streams[source] = max(batch, streams.get(source, -1))
    return Manifest(topology, component, generation, tuple(files), streams), replaced


def _entry(store: FileStore, name: str) -> tuple[FileEntry, str, int]:
    """The entry of a file from its footer; for a stream's file also its name and batch."""
    with store.open(name) as file:
        found = require("pyarrow.parquet").read_metadata(file)
    metadata = found.metadata or {}
    source, batch = _stream_of(metadata)
    return FileEntry(name, found.num_rows, store.size(name)), source, batch


def _continues(found: Manifest, identity: Mapping[bytes, bytes]) -> bool:
    source, batch = _stream_of(identity)
    return bool(source) and batch > found.streams.get(source, batch)


def _stream_of(metadata: Mapping[bytes, bytes]) -> tuple[str, int]:
    batch = metadata.get(_BATCH, b"").decode("ascii", "replace")
    if not batch.isdecimal():
        return "", -1
    return metadata.get(_CHUNK, b"").decode("utf-8", "replace").rpartition(f"/b{batch}/")[0], int(batch)


def _checked_name(name: Any) -> str:
    """The name; ValueError if it is not the name of a sink's file below the folder."""
    parts: Iterable[str] = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part for part in parts) or not _OURS.fullmatch(name.rpartition("/")[2]):
        raise ValueError(f"{name!r:.100} is no file that a sink writes")
    return str(name)
