"""By value: PySpark pickles the client with all its code, for executors where aiostorm is not installed.

Executors import none of our modules then: functions and classes of these modules carry the code that they use. The
executors of `format("aiostorm")` get objects of other modules (its options, a ServerLocation), which they import by
name. `fields` and `replace` of dataclasses do not work there: they compare objects that are copied.
"""

from __future__ import annotations

import copyreg
import struct
from importlib import import_module
from typing import Any, Final

from ..needs import require

_MODULES: Final = (
    "runtime.errors",
    "runtime.rng",
    "transport.errors",
    "transport.net.addresses",
    "transport.net.authentication",
    "transport.net.blocking",
    "transport.net.blocking_frames",
    "transport.net.credentials",
    "transport.net.security",
    "transport.net.stream_frames",
    "transport.net.tls",
    "spark.digests",
    "spark.errors",
    "spark.executors.client",
    "spark.executors.endpoints",
    "spark.executors.messages",
)


def register_by_value(*modules: str) -> None:
    """Pickle the modules of the client by value, and these modules."""
    cloudpickle = require("pyspark.cloudpickle")
    copyreg.pickle(struct.Struct, _reduced)
    root = __name__.partition(".")[0]
    for name in (*(f"{root}.{one}" for one in _MODULES), *modules):
        cloudpickle.register_pickle_by_value(import_module(name))


def _reduced(one: struct.Struct) -> tuple[Any, ...]:
    """A Struct cannot be pickled; its format can."""
    return struct.Struct, (one.format,)
