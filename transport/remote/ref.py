"""RemoteRef: the address of an actor of another process. Used as any Ref is.

    await ref.tell(m)      waits while the window to that actor is full; nobody else on the link waits for it
    await ref.ask(m)       many at the same time; the answer, or why there is none
    self.watch(ref)        Terminated, once: it ended, its process began a new life, the link was closed

1. A ref by name leads to whoever is offered under that name, in whichever life of the process. One that came in a
   message leads to one actor, for as long as that lives.
2. A message comes at most once, in the order in which its sender sent them to this actor. That `tell` returns says that
   the message is on its way, not that it has come: it is lost with its process, or if there is no such actor.
3. A peer that does not answer is waited for: an ask has its time, a tell waits once the window is full.
4. Only the actor's own process can stop it.

From: Erlang (`{Name, Node}` and pids), Pekko's ActorSelection and ActorRef.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ...actors import DeathWatch, Inbox, MailboxClosedError, Ref, time_out
from ..errors import NotHereError, PeerLostError
from .channel import IGNORE_TERMINATION, Channel
from .peer import NodeContext, RemotePeer

_FROM_SYSTEM: Any = object()


class PeerTable(Protocol):
    """Who finds the peer of a name."""

    @property
    def home(self) -> NodeContext:
        """What all of them share."""
        ...

    def peer(self, name: str) -> RemotePeer:
        """PeerLostError if there is no link to it."""
        ...


class _TerminationWaiter:
    def __init__(self, rung: asyncio.Future[None]) -> None:
        self._rung = rung

    def post(self, item: Any) -> None:
        if not self._rung.done():
            self._rung.set_result(None)


class RemoteRef(Ref):
    """To an actor of the process `node`; `key` is its name there, or its number. Made by a Node."""

    __slots__ = ("_channel", "_peers", "key", "node")

    def __init__(self, peers: PeerTable, node: str, key: str | int) -> None:
        self._peers = peers
        self._channel: Channel | None = None
        self.node = node
        self.key = key

    @property
    def path(self) -> str:
        """Where it stands: "//node/name"; for one without a name its number."""
        return f"//{self.node}/{self.key if isinstance(self.key, str) else f'{self.key:016x}'}"

    @property
    def is_alive(self) -> bool:
        """False once it is known here that it has ended. True does not say much."""
        return self._channel is None or not self._channel.over

    @property
    def inbox(self) -> Inbox:
        """NotHereError: it is in another process."""
        raise self._not_here()

    @property
    def deathwatch(self) -> DeathWatch:
        """See Ref. One that has ended already if there is no link."""
        try:
            return self._to().deathwatch
        except PeerLostError as error:
            ended = DeathWatch(self, IGNORE_TERMINATION)
            ended.end(error)
            return ended

    async def tell(self, message: Any) -> None:
        """Send a message; waits while the window is full.

        UnsendableError if it cannot be sent, MailboxClosedError (NoSuchActorError) if the actor is known to have
        ended, PeerLostError if there is no link. Cancelled while it waits, the message was not sent, unless that had
        just happened.
        """
        channel = self._channel
        if channel is None or channel.over:
            channel = self._to()
        packed = self._peers.home.pack(message, self)
        if not channel.offer(packed):
            await channel.tell(packed)

    def tell_nowait(self, message: Any) -> bool:
        """Send a message if there is room now; False if not. Raises as `tell`."""
        channel = self._to()
        channel.check()
        return channel.offer(self._peers.home.pack(message, self))

    async def ask(self, message: Any, *, timeout_s: float | None = _FROM_SYSTEM) -> Any:
        """Send a message and wait for what `receive` returns for it there. The time counts from here.

        Raises as `tell`, and: AskTimeoutError when the time runs out, AskFailedError when `receive` raised (its cause
        is a RemoteFailureError), MailboxClosedError when the actor ended before it answered, PeerLostError when its
        process did: then it may or may not have been done.
        """
        channel = self._channel
        if channel is None or channel.over:
            channel = self._to()
        home = self._peers.home
        system = home.system
        packed = home.pack(message, self)
        loop = system.loop
        reply: asyncio.Future[Any] = loop.create_future()
        number = next(home.numbers)
        channel.ask(number, packed, reply)
        deadlines = system.ask_deadlines if timeout_s is _FROM_SYSTEM else None
        timer: asyncio.TimerHandle | None = None
        if deadlines is not None:
            deadlines.add(reply, self)
        elif timeout_s is not _FROM_SYSTEM and timeout_s is not None:
            timer = loop.call_later(timeout_s, time_out, reply, self, timeout_s)
        try:
            return await reply
        finally:
            channel.forget(number, reply)
            if deadlines is not None:
                deadlines.discard(reply)
            if timer is not None:
                timer.cancel()

    def ask_nowait(self, message: Any, reply: Any) -> bool:
        """NotHereError: messages of other processes are for actors of this one."""
        raise self._not_here()

    def stop(self) -> None:
        """NotHereError: send it a message that asks it to."""
        raise self._not_here()

    def kill(self) -> None:
        """NotHereError: send it a message that asks it to."""
        raise self._not_here()

    async def wait_terminated(self) -> None:
        """Wait until it has ended, or its process is lost."""
        ended = asyncio.get_running_loop().create_future()
        watching, watched = DeathWatch(self, _TerminationWaiter(ended)), self.deathwatch
        watching.watch(watched)
        try:
            await ended
        finally:
            watching.unwatch(watched)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteRef) and (self.node, self.key) == (other.node, other.key)

    def __hash__(self) -> int:
        return hash((self.node, self.key))

    def __repr__(self) -> str:
        return f"Ref({self.path})"

    def _to(self) -> Channel:
        channel = self._channel
        if channel is None or (channel.over and isinstance(self.key, str)):  # else its end is final
            channel = self._channel = self._peers.peer(self.node).channel(self.key, self)
        return channel

    def _not_here(self) -> NotHereError:
        return NotHereError(f"{self.path} is in another process: send it a message that asks it to")


class DeadRef(RemoteRef):
    """To an actor of this process that has ended, or is none (any more): it was on its way in a message."""

    __slots__ = ()

    def _to(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(0, self, lambda note: None, {})
            self._channel.end(lambda: MailboxClosedError(f"actor {self.path} has stopped"), None)
        return self._channel
