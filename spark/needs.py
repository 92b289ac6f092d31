"""Optional packages that only this package needs: PySpark and pyarrow, imported when they are first used.

1. Importing aiostorm.spark imports none of them: a topology is built and drawn without Spark.
2. The error for a missing package names the command that installs it.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, Final

from .errors import SparkUnavailableError

log = logging.getLogger("aiostorm.spark")

PYSPARK_VERSIONS: Final = ((3, 5), (4, 4))
"""The tested versions: from the first on, below the second. A newer one is used, with a warning."""

INSTALL_SPARK: Final = 'pip install "aiostorm[spark]"'


def require(module: str) -> Any:
    """Import a module of PySpark, pyarrow, …; SparkUnavailableError if it is missing or too old."""
    top = module.partition(".")[0]
    try:
        if top == "pyspark":
            _check(importlib.import_module("pyspark").__version__)
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == top and error.name != top:
            raise SparkUnavailableError(f"the installed version of {top} has no {error.name}: it is too old") from error
        if missing == top:
            raise SparkUnavailableError(f"{top} is not installed: {INSTALL_SPARK}") from error
        raise SparkUnavailableError(f"{module} needs {missing}, which is not installed: {INSTALL_SPARK}") from error


def require_jvm() -> None:
    """SparkUnavailableError if the installed PySpark is only a client of Spark Connect, which starts no JVM."""
    if getattr(require("pyspark"), "SparkContext", None) is None:
        raise SparkUnavailableError(
            "the installed PySpark is only a client of Spark Connect (pyspark-client): give "
            f'session={{"spark.remote": "sc://HOST:PORT"}}, or {INSTALL_SPARK}'
        )


def version() -> tuple[int, int]:
    """The version of the installed PySpark."""
    return _numbers(require("pyspark").__version__)


def _check(found: str) -> None:
    numbers, (first, below) = _numbers(found), PYSPARK_VERSIONS
    if numbers < first:
        raise SparkUnavailableError(
            f"PySpark {found} is installed; {_text(first)} is the oldest that works here: {INSTALL_SPARK}"
        )
    if numbers >= below and found not in _warned:
        _warned.add(found)
        log.warning("PySpark %s is newer than the tested versions (below %s)", found, _text(below))


_warned: Final[set[str]] = set()


def _numbers(found: str) -> tuple[int, int]:
    major, minor = found.split(".")[:2]
    return int(major), int(minor)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
