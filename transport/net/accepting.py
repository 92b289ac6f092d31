"""Accepting: incoming connections of any kind, from the kernel's queue until their peers are authenticated.

    accepted ─► admission ─► IncomingPeer, with a deadline ─► the connection of that kind ─► authenticated

1. This module accepts connections one by one, and counts each before anything is allocated for it: a silent TLS
   connection has some hundred KiB of buffers. (asyncio's servers accept and allocate at once. Starting TLS later on
   their connections loses bytes that arrived before, on uvloop.)
2. A peer that is not authenticated at its deadline is closed. Closing a listener frees its address and ends the
   connections that `accept` has not been called with.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from ...runtime import LoopClock
from .admission import Admission, AdmissionLimits
from .limited_warnings import LimitedWarnings
from .network import Connection

if TYPE_CHECKING:
    from .bound_sockets import BoundSocket

UNIX_PEER: Final = "unix"
"""The address of all peers that connect over a unix socket."""

_ACCEPT_AT_ONCE: Final = 16
_ACCEPT_AGAIN_S: Final = 0.1

Accept = Callable[[Connection], None]

Start = Callable[["IncomingPeer"], Coroutine[object, None, None]]
"""Makes the connection of a peer. It runs in a task of its own."""


class Listeners:
    """The listeners of one network, and what they share."""

    def __init__(self, limits: AdmissionLimits, group: asyncio.TaskGroup, log: logging.Logger) -> None:
        self.limits = limits
        self.group = group
        self.admission = Admission(limits)
        self.limited_warnings = LimitedWarnings(LoopClock(), log)
        self._open: set[SocketListener] = set()

    def listen(self, address: str, bound: list[BoundSocket], start: Start) -> SocketListener:
        """Listen with sockets that are already bound."""
        listener = SocketListener(self, address, bound, start)
        self._open.add(listener)
        return listener

    def forget(self, listener: SocketListener) -> None:
        """The listener is closed."""
        self._open.discard(listener)

    def close(self) -> None:
        """Close all listeners."""
        for listener in tuple(self._open):
            listener.close()


class SocketListener:
    """A `Listener`. `pending`: its connections that `accept` has not been called with."""

    def __init__(self, listeners: Listeners, address: str, bound: list[BoundSocket], start: Start) -> None:
        self.address = address
        self.listeners = listeners
        self.pending: set[IncomingPeer] = set()
        self._start = start
        self._closed = False
        self._bound = bound
        self._accepting: list[asyncio.Task[None]] = []
        for one in bound:
            self._begin(one.socket)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for task in self._accepting:
            task.cancel()
        loop = asyncio.get_running_loop()
        for one in self._bound:
            with contextlib.suppress(NotImplementedError):
                loop.remove_reader(one.socket)
            one.close()
        for peer in tuple(self.pending):
            peer.abort()
        self.listeners.forget(self)

    def pass_on(self, connection: Connection, accept: Accept) -> None:
        """Call `accept`. If it raises, the connection is closed, and the loop's exception handler gets the error."""
        try:
            accept(connection)
        except Exception as error:
            connection.close()
            message = f"accept of {self.address} failed"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def _begin(self, listening: socket.socket) -> None:
        if self._closed:
            return
        try:
            # Not `sock_accept`: if it is cancelled just as a connection arrives, that connection stays open for ever.
            asyncio.get_running_loop().add_reader(listening, self._ready, listening)
        except NotImplementedError:  # Windows has no readers
            task = self.listeners.group.create_task(self._accept(listening), name=f"listener at {self.address}")
            self._accepting.append(task)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                made, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._warn_cannot_accept(error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_ACCEPT_AGAIN_S, self._begin, listening)
                return
            self._register(made)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                made, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                self._warn_cannot_accept(error)
                await asyncio.sleep(_ACCEPT_AGAIN_S)
            else:
                self._register(made)

    def _warn_cannot_accept(self, error: OSError) -> None:
        text = "%s: cannot accept connections at the moment: %s"
        self.listeners.limited_warnings.warn(text, self.address, error)

    def _register(self, made: socket.socket) -> None:
        made.setblocking(False)
        try:
            name = made.getpeername()
        except OSError:  # the peer has closed it already
            made.close()
            return
        source = str(name[0]) if isinstance(name, tuple) else UNIX_PEER
        peer = IncomingPeer(self, made, source)
        excess = self.listeners.admission.opened(peer, source)
        if excess is None:
            self.listeners.limited_warnings.warn(
                "%s: too many connections from %s: one more is closed", self.address, source
            )
            made.close()
            return
        for oldest in excess:
            if isinstance(oldest, IncomingPeer):
                oldest.abort()
        self.pending.add(peer)
        peer.set_deadline()
        self.listeners.group.create_task(self._start(peer), name=f"{source} connects to {self.address}")


class IncomingPeer:
    """One accepted connection, as admission counts it. `transport`: once there is one."""

    def __init__(self, listener: SocketListener, made: socket.socket, source: str) -> None:
        self.listener = listener
        self.socket = made
        self.source = source
        self.transport: asyncio.Transport | None = None
        self._listeners = listener.listeners
        self._counted = True
        self._deadline: asyncio.TimerHandle | None = None

    def set_deadline(self) -> None:
        """From now on the peer has `authenticate_within_s`."""
        limit_s = self._listeners.limits.authenticate_within_s
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._timed_out)

    def warn(self, text: str, *details: object, level: int = logging.WARNING) -> None:
        """Write to the log, if this peer has not done so too often. The text begins with listener and source."""
        self._listeners.limited_warnings.warn(text, self.listener.address, self.source, *details, level=level)

    def on_passed(self) -> None:
        """`accept` is about to be called with the connection: it outlives the listener."""
        self.listener.pending.discard(self)

    def on_authenticated(self) -> None:
        """The peer is authenticated."""
        self._listeners.admission.authenticated(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_lost(self) -> None:
        """The connection is over. A second call does nothing."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._counted:
            self._counted = False
            self._listeners.admission.closed(self, self.source)
        self.listener.pending.discard(self)

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        else:
            with contextlib.suppress(OSError):  # the peer has closed it already
                self.socket.shutdown(socket.SHUT_RDWR)

    def _timed_out(self) -> None:
        self.warn("%s: %s has not authenticated in time", level=logging.INFO)
        self.abort()
