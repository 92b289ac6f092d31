"""What executors get that have no aiostorm: PySpark pickles it with its code, and it needs none of our modules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aiostorm.spark.batch.partitions import Partitions
from aiostorm.spark.batch.pushing import MODULES, PushLocation, pusher
from aiostorm.spark.batch.readers import End, Piece
from aiostorm.spark.calls import SparkCalls
from aiostorm.spark.executors.by_value import register_by_value
from aiostorm.spark.needs import require

from .test_batch_ways import SCHEMA, calls, pushing  # noqa: F401 - a fixture

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

EXECUTOR = """
import pickle, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiostorm", "aiohttp", "msgpack", "pydantic"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, NotInstalled())
import pyarrow, pyspark

class Task:
    get = classmethod(lambda own: own)
    partitionId = classmethod(lambda own: 0)

pyspark.TaskContext = Task
push = pickle.load(sys.stdin.buffer)
[result] = push(pyarrow.record_batch({"id": [number]}) for number in range(5))
print(result.to_pylist(), not any(name.startswith("aiostorm") for name in sys.modules))
"""


async def test_an_executor_needs_no_aiostorm(java: None, calls: SparkCalls) -> None:  # noqa: F811
    printed: list[Any] = []

    def job(where: PushLocation) -> list[int]:
        register_by_value(*MODULES)
        pickled = require("pyspark.cloudpickle").dumps(pusher(where, SCHEMA.serialize().to_pybytes(), 2))
        done = subprocess.run(
            [sys.executable, "-c", EXECUTOR], input=pickled, capture_output=True, timeout=60, check=False
        )
        printed.append((done.stdout.decode().strip(), done.stderr))
        return [0]

    async with pushing(calls, Partitions(1), job) as (_, items):
        assert printed[0][0] == "[{'partition': 0, 'chunks': 3}] True", printed
        assert [type(item) for item in items] == [Piece, Piece, Piece, End]
        assert items[0].batch.column(0).to_pylist() == [0, 1]
