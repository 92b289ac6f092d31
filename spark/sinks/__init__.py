"""Results as Parquet files and as rows of a table. A tuple is acked when it is durable.

parquet_sink.py is the bolt for files: parquet_writer.py writes those of one task, which parquet_files.py makes,
parquet_names.py names, parquet_store.py stores and parquet_manifest.py lists. table_sink.py is the bolt for tables:
spark_table.py appends, table_ledger.py records what a table has already. Both keep rows in pending_writes.py until
they are written: before in row_buffer.py, and in held_writes.py while the store cannot be written.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .parquet_files import identity_of
    from .parquet_names import SUFFIX, TEMPORARY_FOLDER, receipt_name
    from .parquet_sink import ParquetSinkBolt
    from .parquet_store import FileStore
    from .table_sink import SparkTableSinkBolt

__all__ = [
    "SUFFIX",
    "TEMPORARY_FOLDER",
    "FileStore",
    "ParquetSinkBolt",
    "SparkTableSinkBolt",
    "identity_of",
    "receipt_name",
]

_LATER = {
    "parquet_files": "identity_of",
    "parquet_names": "SUFFIX TEMPORARY_FOLDER receipt_name",
    "parquet_sink": "ParquetSinkBolt",
    "parquet_store": "FileStore",
    "table_sink": "SparkTableSinkBolt",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
