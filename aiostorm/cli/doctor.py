"""Doctor: checks which parts that aiostorm can use are installed, and explains how to get the missing ones.

1. There are two kinds of lines: required parts (if one is missing, that is a problem and exit code 1) and optional
   parts (Spark, TLS files): these may be missing.
2. It starts no JVM and no cluster. It closes what it opens (a port on loopback).
3. A line with a problem says what to do.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ..runtime import AiostormError

Verdict = Literal["ok", "missing", "wrong"]

LEAST_FILES: Final = 1024
"""The least open files that a process should be allowed: a link, a socket and a pipe for each worker, and Spark's."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: the checked part, its state, and advice. `needed`: nothing runs without it."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""
    needed: bool = False

    @property
    def is_problem(self) -> bool:
        """Does it lead to exit code 1?"""
        return self.verdict == "wrong" or (self.needed and self.verdict != "ok")


def examine() -> list[Finding]:
    """Check everything. Takes well under a second (a Java without a file `release` is asked for its version)."""
    return [*_python(), *_packages(), *_system(), *_spark()]


def _python() -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} ({sys.executable})", needed=True)


def _packages() -> Iterator[Finding]:
    yield Finding("aiostorm", "ok", importlib.metadata.version("aiostorm"), needed=True)
    for name in ("aiohttp", "msgpack", "pydantic", "click", "PyYAML"):
        yield _package(name, "pip install aiostorm", needed=True)
    if sys.platform != "win32":
        yield _package("uvloop", "pip install uvloop: faster than asyncio's own event loop")
    yield _package("rich", 'pip install "aiostorm[standard]": a live table instead of lines')
    for name in ("pyarrow", "numpy"):
        yield _package(name, 'pip install "aiostorm[arrow]": columns (emit_arrow), Parquet')
    yield _package("cryptography", 'pip install "aiostorm[tls]": makes certificates (aiostorm certs)')


def _package(name: str, advice: str, *, needed: bool = False) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name), needed=needed)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", advice, needed)


def _system() -> Iterator[Finding]:
    yield _files()
    yield _limits()
    yield _attempt("temporary files", tempfile.gettempdir(), _temporary, "set TMPDIR to a writable folder")
    yield _attempt(
        "loopback", "a port can be opened", _loopback, "workers need 127.0.0.1: check the firewall or the sandbox"
    )
    if hasattr(socket, "AF_UNIX"):
        yield _attempt(
            "private sockets", "a unix socket can be opened", _private, "set TMPDIR to a shorter, local path"
        )


def _limits() -> Finding:
    """How a supervisor that is started here would limit its processes."""
    from ..cluster.supervisor import CgroupError, found

    try:
        return Finding("limits of workers", "ok", f"cgroup v2: {found()}")
    except CgroupError as error:
        return Finding("limits of workers", "ok", f"rlimit; no cgroups: {error}")


def _files() -> Finding:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return Finding("open files", "ok", "no limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (-1, resource.RLIM_INFINITY) or soft >= LEAST_FILES:
        return Finding("open files", "ok", f"{soft} of at most {hard}")
    return Finding("open files", "wrong", f"{soft} of at most {hard}", f"ulimit -n {LEAST_FILES * 4}")


def _attempt(name: str, found: str, attempt: Callable[[], None], advice: str) -> Finding:
    try:
        attempt()
    except OSError as error:
        return Finding(name, "wrong", str(error), advice, needed=True)
    return Finding(name, "ok", found, needed=True)


def _temporary() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")


def _loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)):
        pass


def _private() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.join(folder, "socket"))


def _spark() -> Iterator[Finding]:
    from ..spark import INSTALL_SPARK, PYSPARK_VERSIONS, find_java

    pyspark = _package("pyspark", f"{INSTALL_SPARK}: sources and sinks for Spark")
    client = _package("pyspark-client", "")
    if pyspark.verdict != "ok" and client.verdict == "ok":
        pyspark = Finding("pyspark", "ok", f"{client.found}, only a client of Spark Connect (pyspark-client)")
    elif pyspark.verdict == "ok":
        least, below = PYSPARK_VERSIONS
        if not _fits(pyspark.found, least, (1_000, 0)):
            advice = f'pip install "pyspark>={".".join(map(str, least))}"'
            pyspark = Finding("pyspark", "wrong", f"{pyspark.found} is too old", advice)
        elif not _fits(pyspark.found, least, below):
            pyspark = Finding("pyspark", "ok", f"{pyspark.found}, newer than the tested versions")
    yield pyspark
    yield _package("pandas", f"{INSTALL_SPARK}: PySpark needs it for columns in Python")
    try:
        java = find_java()
    except AiostormError as error:
        yield Finding("Java", "missing", "no version that Spark can use", str(error))
    else:
        yield Finding("Java", "ok", f"{java.version} ({java.where}: {java.home})")


def _fits(version: str, least: tuple[int, int], below: tuple[int, int]) -> bool:
    major, minor = (int(part) for part in version.split(".")[:2])
    return least <= (major, minor) < below
