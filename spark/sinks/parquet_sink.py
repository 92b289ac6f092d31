"""ParquetSinkBolt: writes a dataset of Parquet files. A tuple is acked when its file is durable.

    a batch with identity ─▶ its file, named by chunk, part and contents ─▶ acked      again: the name is there ─▶ acked
    rows without ─▶ buffer ─▶ max_rows, max_bytes, or flush_s ─▶ a file of its own ─▶ all of them acked

1. Exactly once for rows with an identity (topology/tuples/identity.py): a replay, in whichever task and however often,
   finds its file. This requires that a replayed chunk has the same rows: the bolts before the sink must not depend on
   time, on chance or on other chunks.
2. At least once for other rows: a row that is replayed is in two files.
3. Readers never find half a file: each is written under another name, synced, and renamed (parquet_store.py).
4. While the store cannot be written, rows are held, which also stops the source. Rows that can never be written
   (another schema, …) fail with an error that says what to do; the task goes on (pending_writes.py).
5. Memory is bounded by the current batch, or by `max_rows` and `max_bytes` of the buffer, and the files made of it.
6. A job that has ended well leaves `_manifest.json` and `_SUCCESS`. Another job does not add to this output, and
   replaces it only with `overwrite` (parquet_manifest.py).
7. With exactly-once, all rows are written once: files are written as they come under a pending name, and get their own
   when the snapshot with their rows is durable (prepared_files.py). A store that cannot be written when a snapshot is
   due takes the topology back to the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...runtime import SystemRng
from ...state import Commits
from ...topology import Bolt, BoltCollector, Completion, Fields, TopologyContext, TupleBatch
from ..errors import SinkError
from .parquet_files import DatasetSchema, ParquetFormat
from .parquet_manifest import finish
from .parquet_store import FileStore, open_store
from .parquet_writer import ParquetWriter
from .pending_writes import FlushLimits, PendingWrites

if TYPE_CHECKING:
    from .prepared_files import PreparedFiles

log = logging.getLogger("aiostorm.spark")

MAX_ROWS: Final = 50_000
MAX_BYTES: Final = 64 * 1024 * 1024


class ParquetSinkBolt(Bolt, Commits):
    """Writes Arrow batches and rows to `path`: a folder, or a URL of fsspec's (`s3://…`, `memory://…`).

    `partition_by`: fields that become folders (`origin=SFO/`). `schema`: a pyarrow.Schema, or a function that returns
    one; default: that of the first batch. `compression`: zstd, snappy, gzip, lz4 or None; `options`: more arguments of
    `pyarrow.parquet.write_table`. `filesystem`: one of fsspec's or pyarrow's, instead of the URL's; `storage_options`:
    for fsspec. `max_partitions`: the most folders written for one batch.
    `max_rows`, `max_bytes`, `flush_s`: when rows without an identity are written. They are acked then, not before.
    `overwrite`: replace the files of an earlier job (listed in its `_manifest.json`) when all of this one is written;
    without it, other data than that job's is refused, and the topology fails.
    With exactly-once, rows are in files that appear when the snapshot that contains them is committed.

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
        limits = FlushLimits(max_rows, max_bytes, flush_s)
        limits.check(max_partitions=max_partitions)
        by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.path = str(path)
        self.config = limits.config  # type: ignore[misc] # of this instance, not the class
        self._limits = limits
        self._format = ParquetFormat(by, max_partitions, compression, dict(options or {}))
        self._schema = schema
        self._filesystem = filesystem
        self._storage_options = storage_options
        self._overwrite = overwrite
        self._collector: BoltCollector
        self._pending: PendingWrites
        self._writer: ParquetWriter

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        """Check the output folder. An error is reported; tuples wait until it is corrected."""
        schema = DatasetSchema(self._schema, self._format.partition_by)
        self._collector = collector
        self._pending = PendingWrites(collector, schema, self._limits, SystemRng().generator().random)
        self._writer = ParquetWriter(self.path, self._open_store(), self._format, context, overwrite=self._overwrite)
        try:
            self._writer.begin()
        except SinkError as error:
            collector.report_error(error)

    def execute_batch(self, tuples: TupleBatch) -> None:
        for segment in tuples.segments:
            if self._pending.add(segment, buffers_chunks=False):
                self._write()

    def on_tick(self) -> None:
        if self._pending.tick():
            self._write()

    def flush(self) -> None:
        """A snapshot is taken: write what is kept."""
        self._pending.flush()
        self._write()
        self._pending.raise_held(self.path)

    def pre_commit(self, number: int) -> Any:
        """The files that get their names when the snapshot is durable."""
        return self._prepared.pre_commit()

    def commit(self, handle: Any) -> None:
        """Give files their names."""
        self._prepared.commit(handle)

    def abort(self, handle: Any) -> None:
        """The files belong to the next snapshot."""
        self._prepared.abort(handle)

    def held_rows(self) -> int:
        """The rows that are in no file yet."""
        return self._pending.rows

    def restored(self, number: int | None) -> None:
        """Remove the files that no snapshot has."""
        self._writer.restored(number)

    def cleanup(self) -> None:
        """Try once more to write the remaining rows. If all are written, leave a receipt."""
        prepared = self._writer.prepared
        if prepared is None:
            self._pending.flush()
            self._write()
            if self._pending.give_up(f"{self.path} could not be written until the topology ended"):
                return
        elif not (prepared.is_empty and self._pending.is_empty):
            return  # the next run continues after the last snapshot
        try:
            self._writer.leave_receipt()
        except SinkError as error:
            self._collector.report_error(error)

    def completed(self, completion: Completion) -> None:
        manifest = finish(
            self._open_store(), completion.topology, completion.component, completion.tasks, overwrite=self._overwrite
        )
        log.info("%s is complete: %d files, %d rows", self.path, len(manifest.files), manifest.rows)

    def result(self) -> Any:
        return {"path": self.path, "files": self._writer.files, "rows": self._writer.rows}

    @property
    def _prepared(self) -> PreparedFiles:
        assert self._writer.prepared is not None  # noqa: S101 - it runs exactly once
        return self._writer.prepared

    def _write(self) -> None:
        """Write what is pending, the oldest first, until the store cannot be written."""
        for write in self._pending.writes:
            try:
                files = self._writer.put(write)
            except SinkError as error:
                if not self._pending.failed(error):
                    return
                continue
            tuples = write.tuples
            for file in files:
                self._collector.emit((file.path, file.rows), anchors=tuples)
            self._pending.done()

    def _open_store(self) -> FileStore:
        return open_store(self.path, SystemRng().token_bytes(8).hex(), self._filesystem, self._storage_options)
