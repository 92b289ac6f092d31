"""Names of the sink's files and folders: a chunk that is written again gets the same name.

    part-<source>-<partition>-<chunk>[-<part>]-<hash of its bytes>.parquet      a chunk, or a part of one
    rows-<component>-<task>-<token>-<number>.parquet                            rows that belong to no chunk
    <field>=<value>/…                                                           the folder, Hive's way
    .aiostorm-tmp/<token>-<number>.tmp                                          before it has its name
    .aiostorm-pending/<sink>-<task>-<token>-<number>.parquet                    before its snapshot is durable

1. Equal names have equal contents: the name has a hash of the file's bytes, which hold chunk and part as metadata. So a
   file that exists need not be written, and two concurrent writers write the same.
2. Different chunks, and different parts of one chunk, have different names, even if their rows are equal.
3. Any text becomes a safe name: no separator, no `..`, no control character, at most MAX_NAME_BYTES.
4. A temporary file is stale if it is older than any write takes: files of running jobs are not removed.

From: Hive's and Spark's partition folders (ExternalCatalogUtils.escapePathName).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from ..errors import SinkError

SUFFIX: Final = ".parquet"
TEMPORARY_FOLDER: Final = ".aiostorm-tmp"
"""Readers of a dataset ignore names that begin with a dot."""

PENDING_FOLDER: Final = ".aiostorm-pending"
TEMPORARY_SUFFIX: Final = ".tmp"
STALE_AFTER_S: Final = 3600.0
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
MAX_NAME_BYTES: Final = 255
MAX_SHOWN: Final = 120

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.]+")
_ESCAPED: Final = re.compile("[\\x00-\\x1f\\x7f\"#%'*/:=?\\\\{}\\[\\]^]")


def file_name(chunk: str, part: str, data: Any) -> str:
    """The name of the file of a chunk or of a part of it. `data`: its bytes."""
    shown = _UNSAFE.sub("-", chunk).strip("-.")[-MAX_SHOWN:] or "chunk"
    hashed = blake2b(digest_size=8)
    for text in (chunk.encode(), part.encode()):
        hashed.update(b"%d:%s" % (len(text), text))
    hashed.update(data)
    return "-".join(["part", shown, *([_UNSAFE.sub("-", part)[:16]] if part else []), hashed.hexdigest()]) + SUFFIX


def rows_name(component: str, task: int, token: str, number: int) -> str:
    """The unique name of a file of rows that belong to no chunk."""
    return f"rows-{_UNSAFE.sub('-', component)[-MAX_SHOWN:]}-{task}-{token}-{number}{SUFFIX}"


def folder_of(fields: Sequence[str], values: Sequence[str | None]) -> str:
    """`origin=SFO/day=1`, or "" without fields. SinkError for a value that is too long to be a folder's name."""
    found = []
    for field, value in zip(fields, values, strict=True):
        name = f"{escaped(field)}={escaped(value) if value else NULL_FOLDER}"
        if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            raise SinkError(
                f"a value of the partition column {field!r} is too long for the name of a folder: {value!r:.60}…; "
                "partition by something shorter"
            )
        found.append(name)
    return "/".join(found)


def escaped(text: str) -> str:
    """A text escaped for a folder's name. Hive, Spark and pyarrow can read it."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def temporary_name(token: str, number: int) -> str:
    """The name of a temporary file in TEMPORARY_FOLDER."""
    return f"{token}-{number}{TEMPORARY_SUFFIX}"


def receipt_name(topology: str, component: str, task: int) -> str:
    """The name of a receipt in TEMPORARY_FOLDER. After a job without an end it stays until it is swept."""
    return f"whole-{_UNSAFE.sub('-', component)[-MAX_SHOWN:]}-{sink_name(topology, component)}-{task}{TEMPORARY_SUFFIX}"


def sink_name(topology: str, component: str) -> str:
    """A sink in the names of its files: sixteen digits."""
    return blake2b(f"{len(topology)}:{topology}{component}".encode(), digest_size=8).hexdigest()


def pending_name(sink: str, task: int, token: str, number: int) -> str:
    """The unique name of a file that waits for its snapshot. `sink`: of `sink_name`."""
    return f"{PENDING_FOLDER}/{sink}-{task}-{token}-{number}{SUFFIX}"


def is_pending_of(name: str, sink: str, task: int, tasks: int) -> bool:
    """Whether a file waits for a snapshot of this task, or of a former one whose files this task has now."""
    found, _, rest = name.rpartition("/")[2].partition("-")
    number = rest.partition("-")[0]
    return found == sink and number.isdecimal() and int(number) % tasks == task


def is_stale(name: str, age_s: float) -> bool:
    """Whether this file of TEMPORARY_FOLDER was left by a crash."""
    return name.endswith(TEMPORARY_SUFFIX) and age_s > STALE_AFTER_S
