"""What workers print and log, as the parent shows it; and how a worker says that it lives while its loop is held."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import time

import pytest

from aiostorm.cluster import Heartbeat, MarkedFormatter, MarkedStream, PipeHeartbeatSender
from aiostorm.cluster.parent.process_backend import ProcessBackend
from aiostorm.cluster.worker import heartbeat as heartbeat
from aiostorm.cluster.worker.log import HEARTBEAT_MARKER, WorkerLog
from aiostorm.runtime.processes import ChildLine


def shown(text: str, caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    caplog.clear()
    log = WorkerLog()
    for line in text.split("\n"):
        log.line(ChildLine("worker-1", 7, "stderr", line))
    return [(record.levelno, record.getMessage()) for record in caplog.records]


async def test_a_record_comes_with_its_level_logger_and_task_and_each_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    record = logging.LogRecord("my.module", logging.ERROR, __file__, 1, "two\nlines", (), None)
    task = asyncio.current_task()
    assert task is not None
    task.set_name("/words/count[7]")
    text = MarkedFormatter("%(message)s").format(record)
    where = "worker-1 count[7] my.module"
    assert shown(text, caplog) == [(logging.ERROR, f"{where}: two"), (logging.ERROR, f"{where}: lines")]


def test_a_record_of_a_blocking_component_names_its_task(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    record = logging.LogRecord("mine", logging.INFO, __file__, 1, "text", (), None)
    record.threadName = "aiostorm-count[7]_0"
    text = MarkedFormatter("%(message)s").format(record)
    assert shown(text, caplog) == [(logging.INFO, "worker-1 count[7] mine: text")]


def test_a_print_names_the_worker_and_a_heartbeat_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert shown(f"plain\n{HEARTBEAT_MARKER}\nhalf a line{HEARTBEAT_MARKER}\n\x1enonsense", caplog) == [
        (logging.INFO, "worker-1: plain"),
        (logging.INFO, "worker-1: half a line"),
        (logging.INFO, "worker-1: "),
    ]


async def test_each_printed_line_names_its_task(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    below = io.StringIO()
    out = MarkedStream(below, "stdout")
    task = asyncio.current_task()
    assert task is not None
    task.set_name("/words/count[7]")
    print("one\ntwo\u2028still two", "\x1eodd", file=out)
    print("a part", end="", file=out)
    print(" and its end", file=out, flush=True)
    task.set_name("other")
    out.writelines(["no task's\n", "\n"])
    where = "worker-1 count[7] stdout"
    assert shown(below.getvalue().removesuffix("\n"), caplog) == [
        (logging.INFO, f"{where}: one"),
        (logging.INFO, f"{where}: two\u2028still two \x1eodd"),
        (logging.INFO, f"{where}: a part and its end"),
        (logging.INFO, "worker-1 stdout: no task's"),
        (logging.INFO, "worker-1 stdout: "),
    ]
    assert not out.isatty(), "the rest is the stream's own"


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_heartbeats_continue_for_a_limited_time_while_the_loop_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread is real, and the clock is the test's."""
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.02)
    now_s = 1000.0
    reads, writes = os.pipe()
    sender = Heartbeat(PipeHeartbeatSender(writes), limit_s=30.0, monotonic=lambda: now_s)
    sender.start()
    try:
        await asyncio.sleep(0.1)
        os.write(writes, b"held\n")
        now_s += 29.0
        seen = _read_until(reads, HEARTBEAT_MARKER)
        now_s += 1.0
        time.sleep(0.1)  # noqa: ASYNC251 - one beat may be under way
        os.write(writes, b"over\n")
        time.sleep(0.1)  # noqa: ASYNC251 - no more come
        os.write(writes, b"end\n")
        seen += _read_until(reads, "end")
    finally:
        sender.stop()
        os.close(writes)
        os.close(reads)
    lines = seen.splitlines()
    assert lines[0] == "held", "while the loop runs nothing is written"
    assert set(lines[1 : lines.index("over")]) == {HEARTBEAT_MARKER}
    assert lines[lines.index("over") + 1 :] == ["end"], "until the limit"


def _read_until(fd: int, text: str) -> str:
    seen = ""
    while text not in seen:
        seen += os.read(fd, 4096).decode()
    return seen


def test_a_backend_shows_no_secret() -> None:
    backend = ProcessBackend()
    secret = backend.secret.decode().partition(".")[2].strip()
    assert len(secret) > 40
    assert secret not in repr(backend) + repr(vars(backend)) + " ".join(backend.arguments)
