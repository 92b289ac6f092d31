"""`format("aiostorm")`: Spark writes directly into a running topology, and reads the output of one.

format.py registers it and parses its options, api.py has the classes that PySpark requires. Executors connect to one
task (spark/executors). ingress.py is the spout (ingress_ledger.py: which chunks are processed), egress.py the bolt
(kept_chunks.py, with egress_log.py and egress_store.py: which chunks are kept, and where). chunks.py and schemas.py:
encoded record batches, and whether they fit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .egress import SparkEgressBolt
    from .format import register
    from .ingress import SparkIngressSpout

__all__ = [
    "SparkEgressBolt",
    "SparkIngressSpout",
    "register",
]

_LATER = {
    "egress": "SparkEgressBolt",
    "format": "register",
    "ingress": "SparkIngressSpout",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
