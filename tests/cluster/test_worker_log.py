"""What workers print and log, as the parent shows it; and how a worker says that it lives while its loop is held."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

import pytest

from aiostorm.actors import ChildLine
from aiostorm.cluster import MarkedFormatter, Pulse, pulse
from aiostorm.cluster.site import ProcessSite, _space, _sweep
from aiostorm.cluster.worker_log import PULSE, WorkerLog


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


def test_a_print_names_the_worker_and_a_pulse_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert shown(f"plain\n{PULSE}\nhalf a line{PULSE}\n\x1enonsense", caplog) == [
        (logging.INFO, "worker-1: plain"),
        (logging.INFO, "worker-1: half a line"),
        (logging.INFO, "worker-1: "),
    ]


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_the_pulse_beats_while_the_loop_is_held_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BEAT_S", 0.02)
    reads, writes = os.pipe()
    beats = Pulse(writes, limit_s=0.2)
    beats.start()
    try:
        await asyncio.sleep(0.1)
        os.write(writes, b"held\n")
        time.sleep(0.5)  # noqa: ASYNC251 - that is what it is about
        os.write(writes, b"end\n")
    finally:
        beats.stop()
        os.close(writes)
    lines = os.read(reads, 4096).decode().split("\n")
    os.close(reads)
    held = lines[lines.index("held") + 1 : lines.index("end")]
    assert 1 <= len(held) <= 12, "until the limit"
    assert set(held) == {PULSE}


def test_folders_of_parents_that_are_gone_are_removed(tmp_path: Path) -> None:
    ours = f"aiostorm-site-{_space()}"
    gone, here, strange = (tmp_path / f"{ours}-{pid}-x" for pid in ("4194305", os.getpid(), "nobody"))
    elsewhere = tmp_path / "aiostorm-site-1-4194305-x"  # a container's that shares this folder with us
    for folder in (gone, here, strange, elsewhere):
        folder.mkdir()
        (folder / "worker-1").touch()
    _sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([here, strange, elsewhere])


def test_a_site_shows_no_secret() -> None:
    site = ProcessSite()
    secret = site.secret.decode().partition(".")[2].strip()
    assert len(secret) > 40
    assert secret not in repr(site) + repr(vars(site)) + " ".join(site.arguments)
