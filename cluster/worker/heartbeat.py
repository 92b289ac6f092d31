"""Heartbeat: reports that a worker is alive while user code blocks its event loop.

    loop:     tick … tick … [user code blocks] ………………………………………………… tick
    thread:                      late: a heartbeat, each second … 30 s: no more ─► its lease is over

1. The heartbeats of a child are lines on its standard error, which its parent reads. A remote worker sends them over a
   connection of the thread's own (see transport's pending connections), open while there is something to send.
2. In a frozen process (SIGSTOP, a machine that hangs) no thread runs: the heartbeats stop at once.
3. A loop that is blocked for `limit_s` counts as frozen: a long computation looks like an endless one. Code
   that blocks longer belongs in a component with `blocking = True`.
4. While the loop runs, no heartbeat is sent: the parent receives other messages.
5. Over that connection a remote worker also sends profiles of a stall, which say where it is blocked; a child writes
   them as lines. Only the last one is kept until it is sent.

From: STORM-742 and STORM-2150, busy workers that were taken for dead; STORM-513, hung ones that were taken for alive.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ...runtime import LIVENESS, AiostormError, Profile
from ...transport import BlockingConnection, Identity, LinkPulse, Security, dial_blocking
from ..messages import PARENT, WORKER
from .log import HEARTBEAT_MARKER, PROFILE_MARKER

log = logging.getLogger("aiostorm.worker")

BEAT_S: Final = LIVENESS.worker_heartbeat_s
LIMIT_S: Final = LIVENESS.worker_stall_timeout_s

DIAL_S: Final = 2.0
"""How long the thread waits for an answer of the parent."""


class HeartbeatSender(Protocol):
    """Sends heartbeats from a thread."""

    def send(self, note: bytes = b"") -> bool:
        """Send a heartbeat, with this note. False: the parent can never receive one."""
        ...

    def pause(self) -> None:
        """The loop runs again: no heartbeats are needed for now."""
        ...


class PipeHeartbeatSender:
    """To a parent that reads the output of this process."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd

    def send(self, note: bytes = b"") -> bool:
        try:
            os.write(self._fd, f"{HEARTBEAT_MARKER}\n".encode())
        except OSError:  # the parent has ended, and this process will
            return False
        return True

    def pause(self) -> None:
        pass


def write_profile(profile: Profile) -> None:
    """A child tells its parent where its loop is blocked, past the loop: a line on its standard error (see log)."""
    try:
        os.write(2, f"{PROFILE_MARKER}{profile.to_line()}\n".encode())
    except OSError as error:  # the parent has ended, and this process will
        log.debug("no profile can be written: %s", error)


class NetworkHeartbeatSender:
    """To the parent. `parent`: its address now. `process`: the process id that was sent in WorkerJoined."""

    def __init__(self, name: str, process: int, parent: Callable[[], str], security: Security) -> None:
        self._name = name
        self._process = process
        self._parent = parent
        self._security = security
        self._connection: BlockingConnection | None = None

    def send(self, note: bytes = b"") -> bool:
        """Errors are ignored until the next heartbeat: the parent may be away for a moment."""
        try:
            if self._connection is None:
                self._connection = dial_blocking(
                    self._parent(),
                    self._security,
                    Identity(self._name, WORKER),
                    roles=(PARENT,),
                    silence_s=DIAL_S,
                    without=True,
                )
                self._connection.send(LinkPulse(self._process, self._name).encode())
                if not note:
                    return True
            self._connection.send(LinkPulse(self._process, self._name, note).encode())
        except (AiostormError, OSError) as error:
            log.debug("%s cannot send a heartbeat: %s", self._name, error)
            self.pause()
        return True

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Heartbeat:
    """Watches the running event loop from `start` to `stop`."""

    def __init__(
        self, sender: HeartbeatSender, limit_s: float = LIMIT_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._sender = sender
        self._limit_s = limit_s
        self._monotonic = monotonic
        self._ticked_s = monotonic()
        self._over = threading.Event()
        self._news = threading.Event()
        self._profiles: deque[Profile] = deque(maxlen=1)
        self._thread = threading.Thread(target=self._watch, name="aiostorm-heartbeat", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the thread."""
        self._tick()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._news.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join(BEAT_S)

    def profiled(self, profile: Profile) -> None:
        """Send a profile of the stall that lasts, at once. Any thread may call it; it does not wait."""
        self._profiles.append(profile)
        self._news.set()

    def _tick(self) -> None:
        self._ticked_s = self._monotonic()
        self._timer = self._loop.call_later(BEAT_S / 2, self._tick)

    def _watch(self) -> None:
        try:
            while True:
                self._news.wait(BEAT_S)
                if self._over.is_set():
                    return
                self._news.clear()
                note = self._profiles.popleft().to_line().encode() if self._profiles else b""
                blocked_s = self._monotonic() - self._ticked_s
                if blocked_s >= self._limit_s or not (note or blocked_s > BEAT_S):
                    self._sender.pause()
                elif not self._sender.send(note):
                    return
        finally:
            self._sender.pause()
