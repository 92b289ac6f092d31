"""A streaming query of Spark as a source. A micro-batch is committed when all of it is acked.

spout.py is what users declare, run.py runs an open spout. query_runner.py starts, checks and stops its query: query.py
is one run of it, session.py its session, checkpoint.py says of which query a checkpoint is. Spark calls
foreach_batch.py with each batch; micro_batch_reader.py reads it as chunks, which chunks.py fetches as Arrow; batches.py
(pure) tracks the outcome of chunks.
"""

from __future__ import annotations

__all__: list[str] = []  # aiostorm.spark has the public names
