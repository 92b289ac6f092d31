"""Stream checkpoint: a small file in the checkpoint folder says to which query it belongs, beside Spark's own files.

    <checkpoint>/aiostorm.json   {"name": …, "columns": "struct<…>", "sources": […]}

1. The file is written before the query starts for the first time, whole or not at all, and never changed.
2. A checkpoint with another identity, or one that Spark has used without this file, is refused: with the offsets of
   another query rows would be lost or doubled. (Spark detects some of these cases, late and with other messages.)
3. Sources are named as Spark names them, without parts that differ from run to run, and without passwords.

It is in the checkpoint's file system, whichever Hadoop supports: it is accessed through the JVM. All of it blocks.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..errors import SparkSourceError

IDENTITY_FILE: Final = "aiostorm.json"
MAX_IDENTITY_BYTES: Final = 4_000_000

_PASSWORD: Final = re.compile(r"//[^/@\s]*@")
_VOLATILE: Final = re.compile(r"[#@]")


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """The identity of a query."""

    name: str
    columns: str
    sources: list[str]

    def differences(self, other: QueryIdentity) -> list[str]:
        """The differences between the query of this checkpoint and `other`, in words."""
        reasons = []
        if self.name != other.name:
            reasons.append(f"it was made for the source {self.name!r}, and this is {other.name!r}")
        if self.columns != other.columns:
            reasons.append(f"it was made for columns {self.columns:.500}, and this has {other.columns:.500}")
        if self.sources != other.sources:
            mine, its = ", ".join(self.sources)[:500], ", ".join(other.sources)[:500]
            reasons.append(f"it was made for a query that reads {mine}, and this reads {its}")
        return reasons


def query_identity(name: str, dataframe: Any) -> QueryIdentity:
    """The identity of a query that reads this streaming DataFrame."""
    return QueryIdentity(name, dataframe.schema.simpleString(), sources_of(dataframe))


def sources_of(dataframe: Any) -> list[str]:
    """The named sources of a streaming DataFrame: "FileSource[/data/in]", "kafka", …"""
    leaves = dataframe._jdf.queryExecution().analyzed().collectLeaves()
    names = [_PASSWORD.sub("//***@", leaves.apply(i).toString()[:1000]) for i in range(leaves.size())]
    return sorted(name for name in names if not _VOLATILE.search(name.replace("//***@", "")))


def claim(session: Any, checkpoint: str, identity: QueryIdentity) -> None:
    """Claim a checkpoint for this query, or check that it is. SparkSourceError if it belongs to another query."""
    jvm = session._jvm
    folder = jvm.org.apache.hadoop.fs.Path(checkpoint)
    files = folder.getFileSystem(session._jsc.hadoopConfiguration())
    path = jvm.org.apache.hadoop.fs.Path(folder, IDENTITY_FILE)
    if not files.exists(path):
        if files.exists(jvm.org.apache.hadoop.fs.Path(folder, "metadata")):
            raise SparkSourceError(
                f"checkpoint {checkpoint} was made by a query that aiostorm did not start: give this one its own folder"
            )
        _write(jvm, files, path, json.dumps(asdict(identity)))
    found = _read(jvm, files, path, checkpoint)
    if differences := found.differences(identity):
        raise SparkSourceError(
            f"checkpoint {checkpoint} is of another query: {'; '.join(differences)}. Give this one its own folder. "
            f"(If it is meant to go on where the other one stopped, delete {IDENTITY_FILE} there.)"
        )


def _write(jvm: Any, files: Any, path: Any, text: str) -> None:
    # Renamed into place: half a file would be an error for ever. Of two writers one wins; both read it again.
    part = jvm.org.apache.hadoop.fs.Path(
        path.getParent(), f".{IDENTITY_FILE}.{jvm.java.util.UUID.randomUUID().toString()}"
    )
    out = files.create(part, False)
    try:
        out.write(bytearray(text.encode()))
    finally:
        out.close()
    files.rename(part, path)
    files.delete(part, False)


def _read(jvm: Any, files: Any, path: Any, checkpoint: str) -> QueryIdentity:
    if files.getFileStatus(path).getLen() > MAX_IDENTITY_BYTES:
        raise SparkSourceError(
            f"{IDENTITY_FILE} in checkpoint {checkpoint} was not written by aiostorm: it is too large"
        )
    stream = files.open(path)
    try:
        text = bytes(stream.readAllBytes()).decode()
        read = json.loads(text)
        return QueryIdentity(str(read["name"]), str(read["columns"]), [str(source) for source in read["sources"]])
    except (ValueError, KeyError, TypeError) as error:
        raise SparkSourceError(
            f"{IDENTITY_FILE} in checkpoint {checkpoint} cannot be read ({error}): delete it if the checkpoint is this "
            "query's"
        ) from error
    finally:
        stream.close()
