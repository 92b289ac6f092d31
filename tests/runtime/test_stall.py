"""Stall watch: it names the line that blocks the loop, once; and reports nothing else."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aiostorm.actors import ActorSystem
from aiostorm.runtime import Stall, StallWatch, watch_stalls
from aiostorm.runtime import stall as stall_module

from ..actors.sample_actors import Diary, Echo

LIMIT_S = 0.1
reports: list[Stall] = []


@pytest.fixture(autouse=True)
def no_reports() -> None:
    reports.clear()


def block(actor: object = None) -> None:
    """Block until it is reported (on a busy machine that comes late), then long enough to be reported twice."""
    before = len(reports)
    until_s = time.monotonic() + 20
    while len(reports) == before and time.monotonic() < until_s:
        time.sleep(LIMIT_S)  # the line that is looked for
    time.sleep(LIMIT_S)


def watch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "aiostorm-stall-watch"]


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_a_stall_is_reported_once_with_its_line_and_asyncio_task() -> None:
    watch = StallWatch(LIMIT_S, reports.append)
    watch.start()
    async with ActorSystem() as system:
        ref = system.spawn(Diary, "blocker")
        await asyncio.sleep(LIMIT_S)
        await ref.ask(block)
        await asyncio.sleep(LIMIT_S * 2)
        assert len(reports) == 1
        await ref.ask(block)
        await asyncio.sleep(LIMIT_S * 2)
    watch.stop()
    assert len(reports) == 2
    stall = reports[0]
    assert stall.task == "/blocker"
    assert stall.blocked_s > LIMIT_S
    # The framework's call into user code is `receive`; what that calls is in the stack.
    assert (stall.filename, stall.function) == (
        str(Path(__file__).parents[1] / "actors" / "sample_actors.py"),
        "receive",
    )
    assert "the line that is looked for" in stall.stack
    assert str(stall).startswith("/blocker has blocked the event loop for ")
    assert f"line {stall.lineno}, in receive: {stall.line}" in str(stall)
    assert watch_threads() == []


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_a_callback_blocks_as_well_as_a_task() -> None:
    watch = StallWatch(LIMIT_S, reports.append)
    watch.start()
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.call_later(0.05, block)
    loop.call_later(0.06, over.set)
    await over.wait()
    watch.stop()
    (stall,) = reports
    assert stall.task == "a callback"
    assert stall.filename == __file__
    assert stall.function == "block"


@pytest.mark.sockets
async def test_a_loop_that_waits_is_not_blocked() -> None:
    watch = StallWatch(0.2, reports.append)
    watch.start()
    await asyncio.sleep(0.1)
    # The machine held everything up: the beat is late, the loop is in its selector.
    handle = watch._handle
    assert handle is not None
    handle.cancel()
    await asyncio.sleep(0.5)
    watch.stop()
    assert reports == []


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_a_report_that_raises_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    def report(stall: Stall) -> None:
        reports.append(stall)
        raise ValueError("cannot report")

    watch = StallWatch(LIMIT_S, report)
    watch.start()
    for count in (1, 2):
        await asyncio.sleep(LIMIT_S)
        block()
        await asyncio.sleep(LIMIT_S)
        assert len(reports) == count
    watch.stop()
    assert "the report of a stall failed" in caplog.text


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_all_with_one_limit_share_a_thread_and_each_gets_the_report() -> None:
    before = len(watch_threads())
    first: list[Stall] = []
    leave = [watch_stalls(LIMIT_S, reports.append), watch_stalls(LIMIT_S, first.append)]
    leave += [watch_stalls(LIMIT_S, lambda stall: None) for _ in range(100)]
    other = watch_stalls(LIMIT_S * 50, first.append)
    assert len(watch_threads()) == before + 2
    await asyncio.sleep(LIMIT_S)
    block()
    await asyncio.sleep(LIMIT_S)
    assert len(reports) == len(first) == 1
    leave.pop(1)()
    block()
    await asyncio.sleep(LIMIT_S)
    assert (len(reports), len(first)) == (2, 1)
    for left in (*leave, other):
        left()
    assert len(watch_threads()) == before
    again = watch_stalls(LIMIT_S, reports.append)
    assert len(watch_threads()) == before + 1
    again()


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_code_that_keeps_the_interpreters_lock_is_reported_afterwards() -> None:
    watch = StallWatch(LIMIT_S, reports.append)
    watch.start()
    await asyncio.sleep(LIMIT_S)
    cpu_s = time.process_time()
    while not reports and time.process_time() - cpu_s < 20:
        sum(range(10_000_000))  # one call, in C
    watch.stop()
    assert reports[0].function == "test_code_that_keeps_the_interpreters_lock_is_reported_afterwards"


STOPPED = """
import asyncio, time
from aiostorm.runtime import StallWatch

async def compute():
    StallWatch(0.5, print).start()  # longer than a busy machine keeps a thread from running
    print("begun", flush=True)
    while time.process_time() - began_cpu_s < 0.8:
        until_s = time.process_time() + 0.02
        while time.process_time() < until_s:
            pass
        await asyncio.sleep(0)

began_cpu_s = time.process_time()
asyncio.run(compute())
"""


@pytest.mark.sockets
@pytest.mark.skipif(sys.platform == "win32", reason="Windows stops no process")
def test_a_process_that_was_stopped_has_not_blocked_its_loop() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")


async def test_stall_detection_is_off_in_virtual_time() -> None:
    watch = StallWatch(LIMIT_S, pytest.fail)
    watch.start()
    assert watch_threads() == []
    watch.stop()


@pytest.mark.sockets
async def test_a_watch_is_started_once() -> None:
    watch = StallWatch(1, pytest.fail)
    watch.start()
    with pytest.raises(RuntimeError, match="make another one"):
        watch.start()
    watch.stop()
    watch.stop()
    with pytest.raises(RuntimeError, match="make another one"):
        watch.start()
    with pytest.raises(ValueError, match="more than 0"):
        StallWatch(0, pytest.fail)


def test_a_thread_does_not_outlive_its_loop() -> None:
    async def forget() -> None:
        StallWatch(0.02, pytest.fail).start()

    with asyncio.Runner() as runner:
        runner.run(forget())
    for thread in watch_threads():
        thread.join(5)
    assert watch_threads() == []


def test_files_of_the_framework_are_recognized() -> None:
    root = Path(stall_module.__file__).parents[1]
    assert stall_module.is_ours(str(root / "actors" / "actor.py"))
    assert stall_module.is_ours(asyncio.__file__)
    assert not stall_module.is_ours(f"{root}_plugins/bolt.py")
    assert not stall_module.is_ours(__file__)


async def test_echo_is_not_a_stall() -> None:
    async with ActorSystem() as system:
        assert await system.spawn(Echo).ask(1) == 1
