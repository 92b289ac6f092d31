"""ProcessIdentity: a process that has ended is not taken for another one with its id."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiostorm.runtime import ProcessIdentity, process_exists

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def child() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_this_process_runs_and_is_named_by_a_text() -> None:
    own = ProcessIdentity.own()
    assert own.pid == os.getpid()
    assert not own.has_ended
    assert ProcessIdentity.parse(str(own)) == own == ProcessIdentity.of(os.getpid())


def test_a_child_that_has_ended_has_ended_before_and_after_it_was_waited_for() -> None:
    process = child()
    found = ProcessIdentity.of(process.pid)
    assert not found.has_ended
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    if sys.platform.startswith("linux"):
        assert found.has_ended
    process.wait()
    assert found.has_ended
    process.stdin.close()  # type: ignore[union-attr]


def test_processes_of_any_user_exist() -> None:
    assert process_exists(os.getpid())
    assert process_exists(1)
    assert not process_exists(4194305)  # above the greatest id that Linux gives


@LINUX
def test_another_process_with_the_same_id_is_another_one() -> None:
    own = ProcessIdentity.own()
    assert own.started > 0
    assert ProcessIdentity(own.space, own.pid, own.started - 1).has_ended
    assert not ProcessIdentity(own.space, own.pid, 0).has_ended, "its start is not known"


def test_of_processes_in_another_container_nothing_is_known() -> None:
    own = ProcessIdentity.own()
    assert not ProcessIdentity(own.space + 1, 999_999_999, 5).has_ended
    assert ProcessIdentity(own.space, 999_999_999, 5).has_ended


@pytest.mark.parametrize("text", ["", "1-2", "1-2-3-4", "a-b-c", "1--3", "-1-2-3", "1-2-" + "9" * 20, "1-2-٣"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a process is SPACE-PID-START"):
        ProcessIdentity.parse(text)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say it")
def test_the_memory_of_a_process() -> None:
    before = ProcessIdentity.own().memory_bytes
    assert before is not None
    # Mapped, and not allocated: a process that has run other tests has freed memory that it would use again.
    with mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept[:] = b"x" * len(kept)
        after = ProcessIdentity.own().memory_bytes
    assert after is not None
    assert after - before > 30 << 20
    assert ProcessIdentity(ProcessIdentity.own().space, 4194305, 1).memory_bytes is None
