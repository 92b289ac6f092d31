"""Heartbeat: says for a worker that it lives, while user code holds its event loop.

    loop:     tick … tick … [user code blocks] ………………………………………………… tick
    thread:                      late: a beat, each second … 30 s: no more ─► its lease is over

1. A child's beats are lines on its standard error, which its parent reads. A worker that a user has started says them
   over a connection of the thread's own (a PULSE, see transport's pending connections), which it has while there is
   something to say.
2. A frozen process (SIGSTOP, a machine that hangs) has no thread that runs: it is silent at once.
3. A loop that is held for `limit_s` counts as frozen: nobody can tell a long computation from one without an end.
   What blocks for longer belongs in a component with `blocking = True`.
4. While the loop runs nothing is said: the parent hears of the worker otherwise.

From: STORM-742 and STORM-2150, busy workers that were taken for dead; STORM-513, hung ones that were taken for alive.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from ...runtime import LIVENESS, AiostormError
from ...transport import BlockingConnection, Identity, Security, dial_blocking, encode_pulse
from ..messages import PARENT, WORKER
from .log import PULSE

log = logging.getLogger("aiostorm.worker")

BEAT_S: Final = LIVENESS.worker_heartbeat_s
LIMIT_S: Final = LIVENESS.worker_stall_timeout_s

DIAL_S: Final = 2.0
"""So long the parent may take to answer the thread."""


class HeartbeatSender(Protocol):
    """How a thread says that the process lives."""

    def beat(self) -> bool:
        """Say it. False: there is nobody to hear it, ever."""
        ...

    def rest(self) -> None:
        """The loop runs again."""
        ...


class PipeHeartbeatSender:
    """To the parent that reads what this process prints."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd

    def beat(self) -> bool:
        try:
            os.write(self._fd, f"{PULSE}\n".encode())
        except OSError:  # nobody reads it: the parent is gone, and this process soon
            return False
        return True

    def rest(self) -> None:
        pass


class NetworkHeartbeatSender:
    """To the parent at that address. `process`: this one's id, as the parent was told when the worker joined."""

    def __init__(self, name: str, process: int, parent: str, security: Security) -> None:
        self._name = name
        self._process = process
        self._parent = parent
        self._security = security
        self._connection: BlockingConnection | None = None

    def beat(self) -> bool:
        """See HeartbeatSender. What goes wrong is tried again at the next one: the parent may be away for a moment."""
        try:
            if self._connection is None:
                self._connection = dial_blocking(
                    self._parent,
                    self._security,
                    Identity(self._name, WORKER),
                    roles=(PARENT,),
                    silence_s=DIAL_S,
                    without=True,
                )
            self._connection.send(encode_pulse(self._process, self._name))
        except (AiostormError, OSError) as error:
            log.debug("%s cannot say that it lives: %s", self._name, error)
            self.rest()
        return True

    def rest(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Heartbeat:
    """Of the running loop, from `start` to `stop`."""

    def __init__(
        self, beats: HeartbeatSender, limit_s: float = LIMIT_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._beats = beats
        self._limit_s = limit_s
        self._monotonic = monotonic
        self._ticked_s = monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="aiostorm-heartbeat", daemon=True)
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
        try:
            while not self._over.wait(BEAT_S):
                held_s = self._monotonic() - self._ticked_s
                if not BEAT_S < held_s < self._limit_s:
                    self._beats.rest()
                elif not self._beats.beat():
                    return
        finally:
            self._beats.rest()
