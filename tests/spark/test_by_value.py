"""What executors get that have no aiostorm: PySpark pickles it with its code, and it needs none of our modules."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from aiostorm.spark.batch.pushing import MODULES, PushLocation, pusher
from aiostorm.spark.executors.by_value import register_by_value
from aiostorm.spark.needs import require

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

EXECUTOR = """
import pickle, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiostorm", "aiohttp", "msgpack", "pydantic"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, NotInstalled())
import pyspark

class Task:
    get = classmethod(lambda own: own)
    partitionId = classmethod(lambda own: 3)

pyspark.TaskContext = Task
push = pickle.load(sys.stdin.buffer)
try:
    list(push(iter([])))
except Exception as error:
    print(error)
"""


def test_an_executor_needs_no_aiostorm(java: None) -> None:
    """All its code runs up to the connection, which is refused."""
    register_by_value(*MODULES)
    schema = pa.schema([("id", pa.int64())]).serialize().to_pybytes()
    where = PushLocation("127.0.0.1:1", b"x" * 32, patience_s=0)
    done = subprocess.run(
        [sys.executable, "-c", EXECUTOR],
        input=require("pyspark.cloudpickle").dumps(pusher(where, schema, 10)),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"127.0.0.1:1: Connection refused" in done.stdout, done.stderr
    assert b"aiostorm" not in done.stdout
