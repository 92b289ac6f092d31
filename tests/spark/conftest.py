"""One Spark for all tests of this folder: a local one, with two cores. It takes 10 s and more to start."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiostorm.runtime import AiostormError

ROOT = Path(__file__).resolve().parents[2]
"""Where Spark finds pyspark_aiostorm.py: in an environment that has the wheel it is on the path anyway."""

REQUIRED = "AIOSTORM_SPARK"
"""Set (to `required`) where Spark has to be there: then its absence is a failure, not a skip."""

FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.ansi.enabled": "true",  # as it is unless set from PySpark 4.0 on
    "spark.log.level": "ERROR",
}
"""Settings that make a session start soon."""

LIGHT = {**FAST, "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""And soon bring its first rows, which are few: for sessions that are there to be killed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark Connect comes last: a process has one session, and what PySpark does for all changes with Connect."""
    items.sort(key=lambda item: item.path.name == "test_connect.py")


def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call it in a thread of its own, and wait: sessions are not made in the main thread."""
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.extend((True, function(*arguments)))
        except BaseException as error:
            outcome.extend((False, error))

    thread = threading.Thread(target=call, name="test's call of Spark")
    thread.start()
    thread.join()
    if not outcome[0]:
        raise outcome[1]
    return outcome[1]


@pytest.fixture(scope="session")
def java() -> None:
    """There are PySpark and Java; otherwise the test is skipped, and says how to get them."""
    try:
        from aiostorm.spark import find_java
        from aiostorm.spark.needs import require

        require("pyspark")
        require("pandas")
        require("pyarrow")
        find_java()
    except AiostormError as error:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, and {error}")
        pytest.skip(f"{error}; in a checkout: uv sync --group spark")


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A SparkSession on `local[2]` that all tests share: leave it as it was."""
    from aiostorm.spark.sessions import make_session, stop_session

    settings = {**FAST, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))).rstrip(os.pathsep))
        session = in_thread(lambda: make_session(settings, master="local[2]", app_name="tests"))
    yield session
    in_thread(stop_session, session)
