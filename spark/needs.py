"""What the room needs and the core does not: PySpark and pyarrow, imported when they are first used.

1. Nothing here is imported at import time of the room: a topology is built, and drawn, without Spark.
2. What is missing is said with the command that brings it.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from .errors import SparkUnavailableError

PYSPARK_VERSIONS: Final = ((4, 2), (4, 4))
"""The versions that were tried: from the first on, below the second."""

INSTALL_SPARK: Final = 'pip install "aiostorm[spark]"'


def load(module: str) -> Any:
    """A module of PySpark's, pyarrow's, …; SparkUnavailableError if it is not there, or not of a version we know."""
    top = module.partition(".")[0]
    try:
        if top == "pyspark":
            _check(importlib.import_module("pyspark").__version__)
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == top:
            raise SparkUnavailableError(f"{top} is not installed: {INSTALL_SPARK}") from error
        raise SparkUnavailableError(f"{module} needs {missing}, which is not installed: {INSTALL_SPARK}") from error


def _check(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2])
    first, below = PYSPARK_VERSIONS
    if not first <= numbers < below:
        raise SparkUnavailableError(
            f"PySpark {version} is installed; this room was tried with {_text(first)} and newer, below {_text(below)}: "
            f"{INSTALL_SPARK}"
        )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
