"""Stall watch: detects code that blocks the event loop, and its line.

A callback of the loop records the time at regular intervals. If it is late, the loop's thread is inside some call: a
second thread reads the loop thread's stack and its current asyncio task, and reports them, once per stall.

    loop:    beat … beat … [user code blocks] ………………… beat …
    thread:  ok     ok     ok    late: report(stack)   ok

1. It is off in virtual time: there nothing may depend on how long code really ran.
2. The watch costs the loop one callback per quarter of the limit.
3. Only running code is reported: a late loop that waits in its selector was delayed by the machine, and a stack that
   was read after the loop has continued says nothing about the stall.
4. Time in which this process did nothing at all does not count (Ctrl-Z, a suspended or busy machine): then the watching
   thread was late itself, and no processor time was used. Code that keeps the interpreter's lock also delays the
   thread, but uses processor time: it is reported.
5. After its report, a stall is sampled as long as it lasts (profile.py), for those who want the profile: at once, then
   twice a second, and rarely when it lasts long. It is for ways out of this process that need no loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final
from weakref import WeakKeyDictionary

from .clock import is_virtual
from .user_files import is_ours

log = logging.getLogger("aiostorm.actors")

_WAITING = ("selectors.py", "runners.py", "base_events.py", "windows_events.py")
"""Files of the innermost frame of an idle loop (uvloop has no Python frames, so there it is the caller's)."""


SAMPLE_S: Final = 0.01
SAMPLED_S: Final = 10.0
"""After so long, a stall is sampled at RARE_S only."""

RARE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Stall:
    """The loop has been blocked for `blocked_s` seconds and still is; `line` is in user code, if there is any."""

    task: str
    blocked_s: float
    filename: str
    lineno: int
    function: str
    line: str
    stack: str

    def __str__(self) -> str:
        where = f'File "{self.filename}", line {self.lineno}, in {self.function}: {self.line}'
        return f"{self.task} has blocked the event loop for {self.blocked_s:.2f} s at {where}"


class StallWatch:
    """Watches the running loop; `report` and `sampled` are called in the watching thread, and must not use the loop.

    `sampled(stall, frame)`: with each sample of the loop's thread while the stall lasts; False: enough.
    """

    def __init__(
        self, limit_s: float, report: Callable[[Stall], None], sampled: Callable[[Stall, FrameType], bool] | None = None
    ) -> None:
        if limit_s <= 0:
            raise ValueError(f"a stall limit must be more than 0 seconds, not {limit_s}")
        self._limit_s = limit_s
        self._report = report
        self._sampled = sampled
        self._beat_s = 0.0  # until the watch is started
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._loop_thread = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start watching; call it in the loop's thread, once. It does nothing in virtual time."""
        if self._thread is not None or self._over.is_set():
            raise RuntimeError("a stall watch can only be started once: make another one")
        self._loop = asyncio.get_running_loop()
        if is_virtual(self._loop):
            return
        self._loop_thread = threading.get_ident()
        self._beat()
        self._thread = threading.Thread(target=self._watch, name="aiostorm-stall-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; wait for the thread, which ends at once."""
        self._over.set()
        if self._handle is not None:
            self._handle.cancel()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        self._beat_s = time.monotonic()
        if self._loop is not None and not self._over.is_set():
            self._handle = self._loop.call_later(self._limit_s / 4, self._beat)

    def _watch(self) -> None:
        reported = looked_at = 0.0
        delayed_s = 0.0  # delay of this thread since the last beat
        asked_s, asked_cpu_s = time.monotonic(), time.process_time()
        while not self._over.wait(self._limit_s / 4):
            if self._loop is None or self._loop.is_closed():
                return
            now_s, cpu_s = time.monotonic(), time.process_time()
            beat_s = self._beat_s
            if beat_s != looked_at:
                looked_at, delayed_s = beat_s, 0.0
            delayed_s += max(0.0, now_s - asked_s - self._limit_s / 4 - (cpu_s - asked_cpu_s))
            asked_s, asked_cpu_s = now_s, cpu_s
            blocked_s = now_s - beat_s - delayed_s
            if blocked_s <= self._limit_s or beat_s == reported:
                continue
            stall = self._find_stall(blocked_s)
            if stall is None or self._beat_s != beat_s or self._over.is_set():
                continue  # no longer blocked, or waiting for this thread: the stack may show anything
            reported = beat_s
            try:
                self._report(stall)
            except Exception:
                log.exception("the report of a stall failed: %s", stall)
            self._sample(stall, beat_s)
            asked_s, asked_cpu_s = time.monotonic(), time.process_time()

    def _sample(self, stall: Stall, beat_s: float) -> None:
        """Sample the loop's thread until it goes on."""
        if self._sampled is None:
            return
        begun_s = time.monotonic()
        while self._beat_s == beat_s:
            frame = sys._current_frames().get(self._loop_thread)
            spent_s = time.monotonic() - begun_s
            try:
                goes_on = frame is not None and self._sampled(
                    replace(stall, blocked_s=stall.blocked_s + spent_s), frame
                )
            except Exception:
                log.exception("the profile of a stall failed: %s", stall)
                return
            if not goes_on:
                return
            del frame  # it would keep what its function refers to
            if self._over.wait(SAMPLE_S if spent_s < SAMPLED_S else RARE_S):
                return

    def _find_stall(self, blocked_s: float) -> Stall | None:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None or self._loop is None:
            return None
        task = asyncio.current_task(self._loop)
        stack = traceback.extract_stack(frame)
        if task is None and Path(stack[-1].filename).name in _WAITING:
            return None
        at = user_frame(stack)
        return Stall(
            task=task.get_name() if task is not None else "a callback",
            blocked_s=blocked_s,
            filename=at.filename,
            lineno=at.lineno or 0,
            function=at.name,
            line=at.line or "",
            stack="".join(traceback.format_list(stack)),
        )


class _SharedWatch:
    """A watch with several receivers of its reports."""

    def __init__(self, limit_s: float) -> None:
        self.reports: list[Callable[[Stall], None]] = []
        self.sampled: list[Callable[[Stall, FrameType], bool]] = []
        self.watch = StallWatch(limit_s, self._report, self._sampled)

    def _report(self, stall: Stall) -> None:
        for report in tuple(self.reports):
            report(stall)

    def _sampled(self, stall: Stall, frame: FrameType) -> bool:
        return any(sampled(stall, frame) for sampled in tuple(self.sampled))


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, _SharedWatch]] = WeakKeyDictionary()


def watch_stalls(
    limit_s: float, report: Callable[[Stall], None], sampled: Callable[[Stall, FrameType], bool] | None = None
) -> Callable[[], None]:
    """Report the stalls of the running loop until the returned function is called. `sampled`: see StallWatch.

    All callers with the same limit share one watch: a hundred idle topologies need one thread and one callback.
    """
    watches = _shared.setdefault(asyncio.get_running_loop(), {})
    shared = watches.get(limit_s)
    if shared is None:
        shared = watches[limit_s] = _SharedWatch(limit_s)
        shared.watch.start()
    shared.reports.append(report)
    if sampled is not None:
        shared.sampled.append(sampled)

    def unwatch() -> None:
        shared.reports.remove(report)
        if sampled is not None:
            shared.sampled.remove(sampled)
        if not shared.reports:
            del watches[limit_s]
            shared.watch.stop()

    return unwatch


def user_frame(stack: traceback.StackSummary) -> traceback.FrameSummary:
    """The innermost frame of user code that the framework called; the innermost frame if there is none."""
    found = stack[-1]
    for outer, inner in zip(reversed(stack[:-1]), reversed(stack[1:]), strict=True):
        if is_ours(outer.filename) and not is_ours(inner.filename):
            return inner
    return found
