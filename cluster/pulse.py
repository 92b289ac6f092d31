"""Pulse: says for a worker that it lives, while user code holds its event loop.

    loop:     tick … tick … [user code blocks] ………………………………………………… tick
    thread:                      late: PULSE to standard error, each second … 30 s: no more ─► its lease is over

1. A frozen process (SIGSTOP, a machine that hangs) has no thread that runs: it is silent at once.
2. A loop that is held for `limit_s` counts as frozen: nobody can tell a long computation from one without an end.
   What blocks for longer belongs in a component with `blocking = True`.
3. While the loop runs nothing is written: the parent hears of the worker otherwise.

From: STORM-742 and STORM-2150, busy workers that were taken for dead; STORM-513, hung ones that were taken for alive.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from .worker_log import PULSE

BEAT_S: Final = 1.0
LIMIT_S: Final = 30.0


class Pulse:
    """Of the running loop, from `start` to `stop`."""

    def __init__(self, fd: int = 2, limit_s: float = LIMIT_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._limit_s = limit_s
        self._monotonic = monotonic
        self._ticked_s = monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="aiostorm-pulse", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin."""
        self._tick()
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join(BEAT_S)

    def _tick(self) -> None:
        self._ticked_s = self._monotonic()
        self._timer = self._loop.call_later(BEAT_S / 2, self._tick)

    def _watch(self) -> None:
        while not self._over.wait(BEAT_S):
            held_s = self._monotonic() - self._ticked_s
            if BEAT_S < held_s < self._limit_s:
                try:
                    os.write(self._fd, f"{PULSE}\n".encode())
                except OSError:  # nobody reads it: the parent is gone, and this process soon
                    return
