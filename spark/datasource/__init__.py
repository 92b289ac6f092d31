"""`format("aiostorm")`: Spark writes directly into a running topology, and reads the output of one.

format.py registers it and parses its options, api.py has the classes that PySpark requires. Executors connect to one
task (spark/executors). ingress.py is the spout (ingress_ledger.py: which chunks are processed), egress.py the bolt
(kept_chunks.py, with egress_log.py and egress_store.py: which chunks are kept, and where). chunks.py and schemas.py:
encoded record batches, and whether they fit.
"""

from __future__ import annotations

__all__: list[str] = []  # aiostorm.spark has the public names
