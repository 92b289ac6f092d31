"""Data identity: which data a plan reads, so that the progress of one day's data is never used for that of another day.

    plan ─► its text, without what differs from run to run ─► which query
         └► leaves: files ─► paths, sizes, times of change    tables ─► versions    ranges ─► nothing but the text
                    anything else (rows of this process, JDBC, …) ─► not known: samples are compared (samples.py)

1. Two runs have the same identity only if query, files and versions are the same; a file that was rewritten differs.
2. Spark lists files when it makes a plan: the identity describes that list, which is what the plan reads.
3. Spark's semanticHash cannot be used: it differs between JVMs (tested with PySpark 4.3).
4. Everything here blocks. Spark's internals are used if they are available: without them the identity is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

_IDS: Final = re.compile(r"(?<=[\w)>`])#-?\d+L?|@[0-9a-f]{4,}")
"""Numbers of Spark's columns and Java's objects."""

_FILE: Final = re.compile(r"\{path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);", re.S)
_FULLY_NAMED: Final = ("Range", "OneRowRelation")


@dataclass(frozen=True, slots=True)
class DataIdentity:
    """The identity of the data. `plan`, `text`: for a header and messages; `is_known`: they identify the data."""

    plan: str = ""
    text: str = ""
    is_known: bool = False


@dataclass(slots=True)
class _InputFiles:
    """The inputs found in the leaves of a plan."""

    lines: list[str] = field(default_factory=list)
    files: int = 0
    size_bytes: int = 0
    newest_ms: int = 0
    others: list[str] = field(default_factory=list)

    def add(self, path: str, size_bytes: int, changed_ms: int) -> None:
        self.lines.append(f"{path}\0{size_bytes}\0{changed_ms}")
        self.files += 1
        self.size_bytes += size_bytes
        self.newest_ms = max(self.newest_ms, changed_ms)

    def __str__(self) -> str:
        parts = []
        if self.files:
            newest = datetime.fromtimestamp(self.newest_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
            number = f"{self.files:,} file{'' if self.files == 1 else 's'}"
            parts.append(f"{number} of {self.size_bytes:,} bytes, the newest of {newest}")
        parts += sorted({line for line in self.lines if "\0" not in line})
        parts += sorted(set(self.others))
        return "; ".join(parts) or "what the query says"


def identify_data(frame: Any) -> DataIdentity:
    """The data that this classic DataFrame reads. Blocks."""
    plan = frame._jdf.queryExecution().analyzed()
    text = _IDS.sub("#", plan.canonicalized().toString())
    plan_text = f"{text.splitlines()[0][:80]} … {_digest(text)}"
    files = _InputFiles()
    for leaf in _leaves(plan):
        _inspect_leaf(frame.sparkSession._jvm, leaf, files)
    inputs = f"{files} ({_digest(*sorted(files.lines))})" if files.lines else str(files)
    return DataIdentity(plan_text, inputs, not files.others)


def _leaves(plan: Any) -> Iterator[Any]:
    subqueries = plan.subqueriesAll()
    for part in (plan, *(subqueries.apply(at) for at in range(subqueries.size()))):
        leaves = part.collectLeaves()
        for at in range(leaves.size()):
            yield leaves.apply(at)


def _inspect_leaf(jvm: Any, leaf: Any, files: _InputFiles) -> None:
    kind = leaf.getClass().getSimpleName()
    if kind in _FULLY_NAMED:
        return
    if kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
        _add_files(jvm, leaf.relation().location(), files)
        return
    if kind in ("DataSourceV2Relation", "DataSourceV2ScanRelation"):
        table = leaf.table() if kind == "DataSourceV2Relation" else leaf.relation().table()
        methods = {method.getName() for method in table.getClass().getMethods()}
        if "fileIndex" in methods:
            _add_files(jvm, table.fileIndex(), files)
            return
        version = table.version() if "version" in methods else None
        if version is not None:
            files.lines.append(f"table {table.name()} at version {version}")
            return
    files.others.append(kind)


def _add_files(jvm: Any, index: Any, files: _InputFiles) -> None:
    """Add the files of an index. Its text has all of them; one call for each file would take a millisecond."""
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    listed = _FILE.findall(index.listFiles(nothing, nothing).toString())
    paths = list(index.inputFiles())
    if len(listed) == len(paths):
        for path, size, changed in listed:
            files.add(path, int(size), int(changed))
        return
    configuration = jvm.org.apache.spark.sql.SparkSession.active().sparkContext().hadoopConfiguration()
    for path in paths:  # file systems with another form of status
        place = jvm.org.apache.hadoop.fs.Path(path)
        status = place.getFileSystem(configuration).getFileStatus(place)
        files.add(path, status.getLen(), status.getModificationTime())


def _digest(*texts: str) -> str:
    made = blake2b(digest_size=8)
    for text in texts:
        made.update(b"%d:" % len(text) + text.encode("utf-8", "replace"))
    return made.hexdigest()
