"""Parquet writer: writes the files of one task of a ParquetSinkBolt, and its receipt at the end. Blocking.

rows ─► files, named ─► may the folder have them? (parquet_manifest.py) ─► put, one after another ─► durable
                                                               exactly once: ╰─► prepared (prepared_files.py)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...runtime import SystemRng
from .parquet_files import CHUNK_KEY, PART_KEY, ParquetFile, ParquetFormat
from .parquet_manifest import OutputGuard, receipt
from .parquet_names import file_name, rows_name, sink_name
from .parquet_store import FileStore, store_errors
from .prepared_files import PreparedFiles

if TYPE_CHECKING:
    from ...topology import TopologyContext
    from .pending_writes import Write

log = logging.getLogger("aiostorm.spark")


class ParquetWriter:
    """The files of one task. `path`: for messages; `files` and `rows` count what is durable.

    `prepared`: the files that wait for a snapshot, with exactly-once; else None.
    """

    def __init__(
        self,
        path: str,
        store: FileStore,
        format: ParquetFormat,  # noqa: A002 - as in the sink
        context: TopologyContext,
        *,
        overwrite: bool,
    ) -> None:
        self._path = path
        self._store = store
        self._format = format
        self._guard = OutputGuard(store, overwrite=overwrite)
        self._receipt = receipt(context.topology, context.component, context.task_index)
        self._task = (context.component, context.task_id)
        self._token = token = SystemRng().token_bytes(8).hex()
        self.prepared: PreparedFiles | None = None
        if context.config.guarantee == "exactly-once":
            self.prepared = PreparedFiles(store, context, sink_name(context.topology, context.component), token)
        self._row_files = 0
        self.files = self.rows = 0

    def begin(self) -> None:
        """Remove what interrupted runs have left. SinkError if nothing can be written."""
        with store_errors(self._path):
            swept = self._store.sweep()
            self._store.remove(self._receipt)
        if swept:
            log.info("%s: removed %d temporary files of interrupted runs", self._path, swept)

    def put(self, write: Write) -> list[ParquetFile]:
        """Write the files of these rows; a second attempt writes those that are missing. SinkError."""
        identity = write.rows[0].identity
        if not write.files:
            write.files = self._format.files(
                [rows.batch for rows in write.rows],
                identity,
                lambda data: self._chunk_name(identity, data) if identity else self._rows_name(),
            )
        for file in write.files:
            if not file.path:
                with store_errors(self._path):
                    put = self._store.put if self.prepared is None else self.prepared.add
                    file.path = put(self._guard.admit(file.name, identity), file.data)
                file.data = None
        self.files += len(write.files)
        self.rows += sum(file.rows for file in write.files)
        return write.files

    def restored(self, number: int | None) -> None:
        """The tasks begin from this snapshot, and continue the output of the run that has taken it."""
        if self.prepared is not None:
            self.prepared.restored(from_start=number is None)
        self._guard.continues = number is not None

    def leave_receipt(self) -> None:
        """All rows of this task are written. SinkError: the job is not marked as complete."""
        with store_errors(self._path):
            self._store.replace(self._receipt, b"{}")

    def _chunk_name(self, identity: Any, data: Any) -> str:
        chunk, part = (identity.get(key, b"").decode("utf-8", "replace") for key in (CHUNK_KEY, PART_KEY))
        return file_name(chunk, part, data)

    def _rows_name(self) -> str:
        self._row_files += 1
        if self.prepared is not None:
            return self.prepared.rows_name(self._row_files)
        if self._row_files == 1:
            log.info(
                "%s[%d] receives rows without an identity (not from a chunk of a source, or from several): they are "
                "written at least once",
                *self._task,
            )
        return rows_name(*self._task, self._token, self._row_files)
