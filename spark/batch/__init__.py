"""A DataFrame as a stream of Arrow chunks, each a message that is acked, replayed and remembered.

    SparkBatchSpout ─► BatchRun ─► Reading ─► Way (fetch | push) ─► readers in threads ─► chunks
                          └► BatchProgress      └► Partitions: which chunk is done, and which comes next

spout.py is what users declare, options.py how it reads; run.py is what an open spout does, reading.py its loop: read
all, again after an error. source.py opens what is read, data_identity.py says which data that is. way_factory.py
chooses a way: ways.py fetches partitions through the driver (fetching.py, readers.py), push_way.py receives them from
executors (pushing.py runs there, push_server.py here, over the connections of executors/), as chunks (chunking.py), as
far as there is capacity (capacity.py).
partitions.py (pure, on runs.py) knows what is done; progress.py keeps it; samples.py checks that a restart sees the
same data.
"""

from __future__ import annotations

__all__: list[str] = []  # aiostorm.spark has the public names
