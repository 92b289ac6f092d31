"""What Spark 4 finds `format("aiostorm")` by: it imports each module `pyspark_*`, and takes its DefaultSource.

Spark does so in every application of an environment, also in those that never say "aiostorm": so this stops no other
source. Where something is missing (PySpark 3.5 has no data sources in Python) there is no DefaultSource, and
`aiostorm.spark.register(spark)` says what it is.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

__all__: list[str] = []

try:
    import_module("pyspark.sql.datasource")  # 3.5 has none
    from aiostorm.spark.datasource.api import AiostormDataSource as DefaultSource
except ImportError:
    pass
else:
    if find_spec("pyarrow") is None:  # nothing could be read or written
        del DefaultSource
    else:
        __all__ += ["DefaultSource"]
