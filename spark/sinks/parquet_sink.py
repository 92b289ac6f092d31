"""ParquetSinkBolt: writes a dataset of Parquet files. A tuple is acked when its file is durable.

    a batch with identity ─▶ its file, named by chunk, part and contents ─▶ acked      again: the name is there ─▶ acked
    rows without ─▶ buffer ─▶ max_rows, max_bytes, or flush_s ─▶ a file of its own ─▶ all of them acked

1. Exactly once for rows with an identity (topology/identity.py): a replay, in whichever task and however often, finds
   its file. This requires that a replayed chunk has the same rows: the bolts before the sink must not depend on time,
   on chance or on other chunks.
2. At least once for other rows: a row that is replayed is in two files.
3. Readers never find half a file: each is written under another name, synced, and renamed (parquet_store.py).
4. While the store cannot be written, rows are held, which also stops the source: writes are retried with backoff, and
   timeouts are restarted at each tick (held_writes.py). Rows that can never be written (another schema, …) fail with an
   error that says what to do; the task goes on.
5. Memory is bounded by the current batch, or by `max_rows` and `max_bytes` of the buffer, and the files made of it.
6. A job that has ended well leaves `_manifest.json` and `_SUCCESS`. Another job does not add to this output, and
   replaces it only with `overwrite` (parquet_manifest.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ...runtime import SystemRng
from ...topology import (
    Bolt,
    BoltCollector,
    ColumnRows,
    ColumnsError,
    Completion,
    Fields,
    Segment,
    TopologyContext,
    TupleBatch,
    batch_of,
)
from ..errors import OutputExistsError, SinkError, SparkUnavailableError
from ..needs import require
from ..parquet_manifest import OutputGuard, finish, receipt
from .held_writes import HeldWrites
from .parquet_buffer import RowBuffer
from .parquet_files import DatasetSchema, divided, encoded, identity_of
from .parquet_names import file_name, rows_name
from .parquet_store import FileStore, never_writable, open_store, write_error

log = logging.getLogger("aiostorm.spark")

MAX_ROWS: Final = 50_000
MAX_BYTES: Final = 64 * 1024 * 1024


@dataclass
class _PendingWrite:
    """Files to be written, and the segments of their rows. `written`: the files that are durable."""

    segments: list[Segment]
    identity: Mapping[bytes, bytes]
    files: list[tuple[str, Any, int]]
    written: list[tuple[str, int]] = field(default_factory=list)


class ParquetSinkBolt(Bolt):
    """Writes Arrow batches and rows to `path`: a folder, or a URL of fsspec's (`s3://…`, `memory://…`).

    `partition_by`: fields that become folders (`origin=SFO/`). `schema`: a pyarrow.Schema, or a function that returns
    one; default: that of the first batch. `compression`: zstd, snappy, gzip, lz4 or None; `options`: more arguments of
    `pyarrow.parquet.write_table`. `filesystem`: one of fsspec's or pyarrow's, instead of the URL's; `storage_options`:
    for fsspec. `max_partitions`: the most folders written for one batch.
    `max_rows`, `max_bytes`, `flush_s`: when rows without an identity are written. They are acked then, not before.
    `overwrite`: replace the files of an earlier job (listed in its `_manifest.json`) when all of this one is written;
    without it, other data than that job's is refused, and the topology fails.

    Emits ("path", "rows") of each file, anchored to the tuples in it.
    """

    outputs = Fields("path", "rows")
    blocking = True

    def __init__(
        self,
        path: str,
        *,
        partition_by: str | Sequence[str] = (),
        schema: Any | Callable[[], Any] = None,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        flush_s: float = 1.0,
        max_partitions: int = 1024,
        compression: str | None = "zstd",
        options: Mapping[str, Any] | None = None,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        if not path:
            raise ValueError("ParquetSinkBolt needs a path: a folder, or a URL such as s3://bucket/folder")
        if max_rows < 1 or max_bytes < 1 or max_partitions < 1 or not flush_s > 0:
            raise ValueError(
                f"max_rows, max_bytes and max_partitions are at least 1, flush_s is more than 0: {max_rows=}, "
                f"{max_bytes=}, {max_partitions=}, {flush_s=}"
            )
        self.path = str(path)
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.config = {"topology.tick.tuple.freq.secs": flush_s}  # type: ignore[misc] # of this instance, not the class
        self._schema = schema
        self._limits = (max_rows, max_bytes)
        self._flush_s = flush_s
        self._max_partitions = max_partitions
        self._compression = compression
        self._options = dict(options or {})
        self._filesystem = filesystem
        self._storage_options = storage_options
        self._overwrite = overwrite
        self._store: FileStore

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        """Check the output folder. An error is reported; tuples fail until it is corrected."""
        self._collector = collector
        self._shape = DatasetSchema(self._schema, self.partition_by)
        rng = SystemRng()
        self._token = rng.token_bytes(8).hex()
        self._held: HeldWrites[_PendingWrite] = HeldWrites(rng.generator().random)
        self._task_name = (context.component, context.task_id)
        self._store = self._opened()
        self._output_guard = OutputGuard(self._store, overwrite=self._overwrite)
        self._receipt = receipt(context.topology, context.component, context.task_index)
        self._buffer: RowBuffer[tuple[Segment, Any]] = RowBuffer(*self._limits)
        self._files = self._rows = self._row_files = 0
        try:
            swept = self._store.sweep()
            self._store.remove(self._receipt)
            if swept:
                log.info("%s: removed %d temporary files of interrupted runs", self.path, swept)
        except Exception as error:  # drivers have their own errors
            collector.report_error(SinkError(write_error(self.path, error)))

    def execute_batch(self, tuples: TupleBatch) -> None:
        """Write rows with an identity; buffer the others."""
        for segment in tuples.segments:
            self._fail_on_error([segment], partial(self._write_segment, segment))

    def on_tick(self) -> None:
        """Write buffered rows after `flush_s`, and retry held writes when they are due."""
        for write in self._held.items:
            for segment in write.segments:
                self._keep_waiting(segment)
        if self._held.passed(self._flush_s):
            self._write_held()
        if self._buffer.tick():
            self._flush()

    def cleanup(self) -> None:
        """Try once more to write the remaining rows. If all are written, leave a receipt."""
        self._flush()
        self._write_held()
        left = self._held.drop()
        for write in left:
            self._fail(write.segments, SinkError(f"{self.path} could not be written until the topology ended"))
        if not left:
            try:
                self._store.replace(self._receipt, b"{}")
            except Exception as error:  # drivers have errors of their own; the job is not marked as whole
                self._collector.report_error(SinkError(write_error(self.path, error)))

    def completed(self, completion: Completion) -> None:
        """Write the manifest when all tasks have ended."""
        manifest = finish(
            self._opened(), completion.topology, completion.component, completion.tasks, overwrite=self._overwrite
        )
        log.info("%s is complete: %d files, %d rows", self.path, len(manifest.files), manifest.rows)

    def result(self) -> Any:
        """The output of this task."""
        return {"path": self.path, "files": self._files, "rows": self._rows}

    # -- inside ------------------------------------------------------------------------------------------------------

    def _opened(self) -> FileStore:
        return open_store(self.path, SystemRng().token_bytes(8).hex(), self._filesystem, self._storage_options)

    def _write_segment(self, segment: Segment) -> None:
        batch = batch_of(segment.items, segment.origin)
        identity = identity_of(batch)
        fitting = self._shape.fit(batch)
        if identity:
            self._write([fitting], identity, [segment])
            return
        if not self._row_files:
            self._row_files = 1
            log.info(
                "%s[%d] receives rows without an identity (not from a chunk of a source, or from several): they are "
                "written at least once",
                *self._task_name,
            )
        if self._buffer.add((segment, fitting), fitting.num_rows, fitting.nbytes):
            self._flush()

    def _flush(self) -> None:
        kept = self._buffer.take()
        if kept:
            segments = [segment for segment, _ in kept]
            self._fail_on_error(segments, lambda: self._write([batch for _, batch in kept], {}, segments))

    def _write(self, batches: list[Any], identity: Mapping[bytes, bytes], segments: list[Segment]) -> None:
        table = require("pyarrow").Table.from_batches(batches)
        write = _PendingWrite(segments, identity, [])
        for folder, part in divided(table, self.partition_by, self._max_partitions):
            data = encoded(part, identity, self._compression, self._options)
            name = self._name(identity, data)
            write.files.append((f"{folder}/{name}" if folder else name, data, part.num_rows))
        held = bool(self._held.items)
        self._held.hold(write)
        if not held:
            self._write_held()

    def _write_held(self) -> None:
        """Write the held files, the oldest first, until one fails."""
        for write in self._held.items:
            try:
                self._put(write)
            except OutputExistsError:  # every other file would fail too
                raise
            except Exception as error:  # the disk, the network, a driver
                failure = error if isinstance(error, SinkError) else SinkError(write_error(self.path, error))
                if not never_writable(error):
                    wait_s = self._held.failed()
                    self._collector.report_error(SinkError(f"{failure}; held, and tried again in {wait_s:.1f} s"))
                    return
                self._fail(write.segments, failure)
            self._held.written()

    def _put(self, write: _PendingWrite) -> None:
        while write.files:
            name, data, rows = write.files[0]
            name = self._output_guard.admit(name, write.identity)
            write.written.append((self._store.put(name, data), rows))
            del write.files[0]
        anchors = TupleBatch(write.segments)
        self._files += len(write.written)
        self._rows += sum(rows for _, rows in write.written)
        for path, rows in write.written:
            self._collector.emit((path, rows), anchors=anchors)
        self._collector.ack(anchors)

    def _keep_waiting(self, segment: Segment) -> None:
        whole = type(segment.items) is ColumnRows  # a batch of columns is one message
        for offset in range(min(1, len(segment)) if whole else len(segment)):
            self._collector.reset_timeout(segment.tuple_at(offset))

    def _name(self, identity: Mapping[bytes, bytes], data: Any) -> str:
        if identity:
            chunk, part = (identity.get(key, b"").decode("utf-8", "replace") for key in _KEYS)
            return file_name(chunk, part, data)
        self._row_files += 1
        return rows_name(*self._task_name, self._token, self._row_files - 1)

    def _fail_on_error(self, segments: list[Segment], work: Callable[[], None]) -> None:
        """Run `work`; an error fails the segments, and is reported once."""
        try:
            work()
        except OutputExistsError:
            raise
        except (SinkError, ColumnsError) as error:
            self._fail(segments, error)
        except SparkUnavailableError:  # pyarrow is missing: nothing can work
            raise
        except Exception as error:  # of Arrow: these rows cannot be written as Parquet
            self._fail(segments, SinkError(f"cannot be written as Parquet: {type(error).__name__}: {error}"))

    def _fail(self, segments: list[Segment], error: Exception) -> None:
        self._collector.report_error(error)
        self._collector.fail(TupleBatch(segments), f"{type(error).__name__}: {error}")


_KEYS: Final = (b"aiostorm.chunk", b"aiostorm.part")
