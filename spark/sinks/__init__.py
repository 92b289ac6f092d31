"""Results as Parquet files and as rows of a table. A tuple is acked when it is durable.

parquet_sink.py is the bolt for files: parquet_writer.py writes those of one task, which parquet_files.py makes,
parquet_names.py names, parquet_store.py stores and parquet_manifest.py lists. table_sink.py is the bolt for tables:
spark_table.py appends, table_ledger.py records what a table has already. Both keep rows in pending_writes.py until
they are written: before in row_buffer.py, and in held_writes.py while the store cannot be written.
"""

from __future__ import annotations

__all__: list[str] = []  # aiostorm.spark has the public names
