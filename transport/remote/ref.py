"""RemoteRef: the address of an actor of another process, with the methods of any Ref.

    await ref.tell(m)      waits while the channel to that actor is full; other senders on the link do not wait
    await ref.ask(m)       many at the same time; returns the answer or raises
    self.watch(ref)        Terminated, once: the actor ended, its process was restarted, or the link was closed

1. A ref by name leads to the actor that is offered under the name, in any incarnation of the process. A ref that came
   in a message leads to one actor while it lives.
2. A message arrives at most once, in the order in which its sender sent them to this actor. When `tell` returns, the
   message is on its way; it may not arrive: it is lost with its process, or if there is no such actor.
3. Senders wait for a peer that does not answer: an `ask` until its timeout, a `tell` once the channel is full.
4. Only the actor's own process can stop it.

From: Erlang (`{Name, Node}` and pids), Pekko's ActorSelection and ActorRef.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ...actors import DeathWatch, Inbox, MailboxClosedError, Ref, time_out
from ..errors import NotHereError, PeerLostError
from .channel import IGNORE_TERMINATION, Channel

if TYPE_CHECKING:
    from ...actors import Answer, Message, Reply
    from .peer import NodeContext, RemotePeer

_FROM_SYSTEM: float = object()  # type: ignore[assignment] # compared by identity


class PeerTable(Protocol):
    """Finds peers by name; a Node implements it."""

    @property
    def context(self) -> NodeContext:
        """What all peers of the node share."""
        ...

    def peer(self, name: str) -> RemotePeer:
        """PeerLostError if there is no link to it."""
        ...


class _TerminationWaiter:
    def __init__(self, terminated: asyncio.Future[None]) -> None:
        self._terminated = terminated

    def post(self, item: Message) -> None:
        if not self._terminated.done():
            self._terminated.set_result(None)


class RemoteRef(Ref):
    """The address of an actor of the process `node`; `key`: its name there, or its number. Made by a Node."""

    __slots__ = ("_channel", "_peers", "key", "node")

    def __init__(self, peers: PeerTable, node: str, key: str | int) -> None:
        self._peers = peers
        self._channel: Channel | None = None
        self.node = node
        self.key = key

    @property
    def path(self) -> str:
        """ "//node/name", or "//node/number" for an actor without a name."""
        return f"//{self.node}/{self.key if isinstance(self.key, str) else f'{self.key:016x}'}"

    @property
    def is_alive(self) -> bool:
        """False once its end is known here. True guarantees nothing."""
        return self._channel is None or not self._channel.over

    @property
    def inbox(self) -> Inbox:
        """NotHereError: the actor is in another process."""
        raise self._not_here()

    @property
    def deathwatch(self) -> DeathWatch:
        """The actor's DeathWatch; one that has already ended if there is no link."""
        try:
            return self._to().deathwatch
        except PeerLostError as error:
            ended = DeathWatch(self, IGNORE_TERMINATION)
            ended.end(error)
            return ended

    async def tell(self, message: Message) -> None:
        """Send a message; waits while the channel is full.

        UnsendableError if it cannot be sent, MailboxClosedError (NoSuchActorError) if the actor is known to have
        ended, PeerLostError if there is no link. A cancelled call has not sent the message, unless it had just done so.
        """
        channel = self._channel
        if channel is None or channel.over:
            channel = self._to()
        packed = self._peers.context.pack(message, self)
        if not channel.offer(packed):
            await channel.tell(packed)

    def tell_nowait(self, message: Message) -> bool:
        """Send a message if there is capacity now; False if not. Raises as `tell`."""
        channel = self._to()
        channel.check()
        return channel.offer(self._peers.context.pack(message, self))

    async def ask(self, message: Message, *, timeout_s: float | None = _FROM_SYSTEM) -> Answer:
        """Send a message and wait for what the actor's `receive` returns. The timeout counts from this call.

        Raises as `tell`, and: AskTimeoutError after the timeout, AskFailedError if `receive` raised (its cause is a
        RemoteFailureError), MailboxClosedError if the actor ended before it answered, PeerLostError if its process
        did: then the message may or may not have been handled.
        """
        channel = self._channel
        if channel is None or channel.over:
            channel = self._to()
        context = self._peers.context
        system = context.system
        packed = context.pack(message, self)
        loop = system.loop
        reply: asyncio.Future[Answer] = loop.create_future()
        number = next(context.numbers)
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

    def ask_nowait(self, message: Message, reply: Reply) -> bool:
        """NotHereError: only an actor of this process can be asked this way."""
        raise self._not_here()

    def stop(self) -> None:
        """NotHereError: send the actor a message that asks it to."""
        raise self._not_here()

    def kill(self) -> None:
        """NotHereError: send the actor a message that asks it to."""
        raise self._not_here()

    async def wait_terminated(self) -> None:
        """Wait until the actor has ended, or its process is lost."""
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
        if channel is None or (channel.over and isinstance(self.key, str)):  # a ref by number stays ended
            channel = self._channel = self._peers.peer(self.node).channel(self.key, self)
        return channel

    def _not_here(self) -> NotHereError:
        return NotHereError(f"{self.path} is in another process: send it a message that asks for this")


class DeadRef(RemoteRef):
    """A ref that came in a message, to an actor of this process that has ended or does not exist."""

    __slots__ = ()

    def _to(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(0, self, lambda note: None, {})
            self._channel.end(lambda: MailboxClosedError(f"actor {self.path} has stopped"), None)
        return self._channel
