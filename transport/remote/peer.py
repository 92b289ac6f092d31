"""RemotePeer: all that the actors of this process and those of one peer say to one another.

    refs ─► channels ─► outbox ─► send queue ─ ─ ─►      notes, as many as there are in one payload
                                  link    ◄─ ─ ─      OPEN, TELL, ASK ─► inlets ─► our actors
                                                      REPLY, FAILED, TAKEN, ENDED ─► channels

1. A message comes at most once. From one sender to one actor messages come in the order in which they were sent,
   however often the link was cut. (The link gives both.)
2. When the peer is lost, all that was asked ends at once with PeerLostError, whoever watches is told, and what its
   actors had sent and ours had not accepted becomes dead letters. Lost is: it began a new life, or the link is closed.
   A peer that is only cut off is not lost: one waits for it, as long as one likes.
3. A message that cannot be read here is lost alone: who asked is told, else it is logged and is a dead letter.
4. What is kept for a peer is bounded: by windows of channels (their number has a bound), by actors that live, by
   callers that wait.

From: Erlang (signals between processes are ordered, and lost with the connection; a monitor hears `noconnection`);
Pekko's Artery (at most once; a UID for each life of a system). Other than there, a link that is cut and comes back has
lost nothing, and senders wait for who is slow.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from ...actors import ActorSystem, AskFailedError, DeadLetter, MailboxClosedError, Question, Ref, Terminated
from ...runtime import AiostormError, Rng
from ..codec.payloads import PayloadKind, pack_payload
from ..errors import NoSuchActorError, PeerLostError, ProtocolError, RemoteFailureError, UnsendableError
from ..link.send_queue import SendQueue
from .channel import Channel
from .exports import Exports
from .inlet import Inlet
from .notes import (
    ASK,
    ENDED,
    FAILED,
    MAX_MESSAGE_BYTES,
    OPEN,
    REPLY,
    TAKEN,
    TELL,
    Reason,
    ReasonCode,
    amounts_of,
    key_of,
    note,
    notes_in,
    pack_key,
    pack_reason,
    question_of,
    reason_of,
    taken_note,
)

_log = logging.getLogger(__name__)

PAYLOAD_BYTES: Final = 48 * 1024
"""Notes are gathered up to about so many bytes in one payload."""

MAX_CHANNELS: Final = 65_536
"""That a peer may have open to actors of ours."""


class Codec(Protocol):
    """Messages as bytes."""

    def pack(self, message: Any) -> bytes:
        """UnsendableError."""
        ...

    def unpack(self, data: memoryview) -> Any:
        """ProtocolError."""
        ...


class NodeContext:
    """What all peers of a node share."""

    def __init__(self, name: str, system: ActorSystem, rng: Rng) -> None:
        self.name = name
        self.system = system
        self.exports = Exports(rng)
        self.numbers: Iterator[int] = itertools.count(int.from_bytes(rng.token_bytes(8), "big") >> 1)
        self.codec: Codec

    def pack(self, message: Any, whither: object) -> bytes:
        """A message as bytes, to what `whither` shows as. UnsendableError, also if it is too large."""
        packed = self.codec.pack(message)
        if len(packed) > MAX_MESSAGE_BYTES:
            raise UnsendableError(
                f"a message of {len(packed):,} bytes to {whither}: {MAX_MESSAGE_BYTES:,} is the most, send it in parts"
            )
        return packed


class RemotePeer:
    """One peer, for one link to it. Is the Gatherer of what is to be sent."""

    def __init__(self, name: str, home: NodeContext, send_queue: SendQueue) -> None:
        self.name = name
        self.home = home
        self.lost = False
        self.lives = 0
        self.asks: dict[int, tuple[asyncio.Future[Any], Channel]] = {}
        self._send_queue = send_queue
        self._outbox: deque[bytes] = deque()
        self._urged = False
        self._channels: dict[str | int, Channel] = {}
        self._by_number: dict[int, tuple[str | int, Channel]] = {}
        self._inlets: dict[int, Inlet] = {}
        self._handlers: dict[int, Callable[[int, memoryview], None]] = {
            OPEN: self._opened,
            TELL: self._told,
            ASK: self._asked,
            REPLY: self._replied,
            FAILED: self._failed,
            TAKEN: self._taken,
            ENDED: self._ended,
        }

    # -- what refs do ------------------------------------------------------------------------------------------------

    def channel(self, key: str | int, ref: Ref) -> Channel:
        """The way to that actor; the first who asks opens it."""
        channel = self._channels.get(key)
        if channel is None:
            number = next(self.home.numbers)
            channel = self._channels[key] = Channel(number, ref, self.send, self.asks)
            self._by_number[number] = key, channel
            self.send(note(OPEN, number, pack_key(key)))
        return channel

    def send(self, packed: bytes) -> None:
        """Put a note into the outbox. Of a peer that is lost nothing is kept."""
        if self.lost:
            return
        self._outbox.append(packed)
        if not self._urged:
            self._urged = True
            self._send_queue.schedule(self)

    # -- Gatherer ----------------------------------------------------------------------------------------------------

    def next_payload(self) -> bytes | None:
        """See Gatherer: all that is there, up to PAYLOAD_BYTES."""
        outbox = self._outbox
        if not outbox:
            self._urged = False
            return None
        taken = [outbox.popleft()]
        room = PAYLOAD_BYTES - len(taken[0])
        while outbox and len(outbox[0]) <= room:
            room -= len(outbox[0])
            taken.append(outbox.popleft())
        return pack_payload(PayloadKind.ACTOR, 0, b"".join(taken))

    # -- lives -------------------------------------------------------------------------------------------------------

    def started(self) -> None:
        """It began a life: if that is not the first, the one before is lost."""
        self.lives += 1
        if self.lives > 1:
            self.lose(lambda: PeerLostError(f"{self.name} has begun a new life: what it was asked may not be done"))

    def close(self, error: Callable[[], AiostormError]) -> None:
        """The link is closed."""
        self.lost = True
        self.lose(error)

    def lose(self, error: Callable[[], AiostormError]) -> None:
        """Nothing of what was between us and this life of it is left."""
        self._outbox.clear()
        inlets, self._inlets = self._inlets, {}
        for inlet in inlets.values():
            inlet.close(f"{self.name}, which had sent it, is lost")
        channels = [channel for _, channel in self._by_number.values()]
        self._channels.clear()
        self._by_number.clear()
        for channel in channels:
            channel.end(error, error())

    # -- what comes --------------------------------------------------------------------------------------------------

    def came(self, body: memoryview) -> None:
        """A payload of kind ACTOR. ProtocolError if it is none."""
        handlers = self._handlers
        for op, number, data in notes_in(body):
            handlers[op](number, data)
            if self.lost:  # what has come made somebody here close the link
                return

    def _opened(self, number: int, data: memoryview) -> None:
        if number in self._inlets or len(self._inlets) >= MAX_CHANNELS:
            raise ProtocolError(f"channel {number} is open, or {MAX_CHANNELS:,} are")
        key = key_of(data)
        ref = self.home.exports.find_for(key, self.name)
        if ref is None:
            self.send(note(ENDED, number, pack_reason(Reason(ReasonCode.UNKNOWN))))
            return
        inlet = self._inlets[number] = Inlet(
            ref,
            tell_taken=lambda messages, size_bytes: self.send(taken_note(number, messages, size_bytes)),
            tell_ended=lambda ended: self._tell_ended(number, ended),
            lose=self._dead_letter,
        )
        inlet.open()

    def _told(self, number: int, data: memoryview) -> None:
        inlet = self._inlets.get(number)
        try:
            message = self.home.codec.unpack(data)
        except ProtocolError as error:
            _log.warning("%s sent %s what cannot be read: %s", self.name, inlet.ref.path if inlet else "nobody", error)
            self._dead_letter(inlet.ref.path if inlet else "", bytes(data), str(error))
            if inlet is not None:
                inlet.skip(len(data))
            return
        if inlet is None:
            self._dead_letter("", message, f"{self.name} sent it to an actor that had ended, or is none")
        else:
            inlet.tell(message, len(data))

    def _asked(self, number: int, data: memoryview) -> None:
        question, packed = question_of(data)
        inlet = self._inlets.get(number)
        if inlet is None:
            return  # who asked hears of the channel's end
        try:
            message = self.home.codec.unpack(packed)
        except ProtocolError as error:
            self._answer_failed(question, Reason.of(ReasonCode.UNREADABLE, error))
            inlet.skip(len(data))
            return
        inlet.ask(Question(message, _RemoteReply(self, question)), len(data))

    def _replied(self, number: int, data: memoryview) -> None:
        asked = self.asks.pop(number, None)
        if asked is None or asked[0].done():
            return  # too late
        try:
            asked[0].set_result(self.home.codec.unpack(data))
        except ProtocolError as error:
            asked[0].set_exception(error)

    def _failed(self, number: int, data: memoryview) -> None:
        reason = reason_of(data)
        asked = self.asks.pop(number, None)
        if asked is not None and not asked[0].done():
            asked[0].set_exception(_refusal(asked[1].path, reason))

    def _taken(self, number: int, data: memoryview) -> None:
        messages, size_bytes = amounts_of(data)
        found = self._by_number.get(number)
        if found is not None:
            found[1].taken(messages, size_bytes)

    def _ended(self, number: int, data: memoryview) -> None:
        reason = reason_of(data)
        found = self._by_number.pop(number, None)
        if found is None:
            return
        key, channel = found
        del self._channels[key]
        path = channel.path
        if reason.why is ReasonCode.UNKNOWN:
            channel.end(lambda: _refusal(path, reason), _refusal(path, reason))
        else:
            cause = RemoteFailureError(reason.kind, reason.text) if reason.why is ReasonCode.RAISED else None
            channel.end(lambda: MailboxClosedError(f"actor {path} has stopped"), cause)

    # -- what is said ------------------------------------------------------------------------------------------------

    def answer(self, question: int, value: Any) -> None:
        """An actor has answered."""
        try:
            self.send(note(REPLY, question, self.home.pack(value, self.name)))
        except UnsendableError as error:
            _log.warning("an answer to %s cannot be sent: %s", self.name, error)
            self._answer_failed(question, Reason.of(ReasonCode.UNSENDABLE, error))

    def refuse(self, question: int, error: BaseException) -> None:
        """It has not: the question failed, or was not received."""
        raised = error.__cause__ if isinstance(error, AskFailedError) else None
        if raised is not None:
            self._answer_failed(question, Reason.of(ReasonCode.RAISED, raised))
        else:
            self._answer_failed(question, Reason.of(ReasonCode.CLOSED, error))

    def _answer_failed(self, question: int, reason: Reason) -> None:
        self.send(note(FAILED, question, pack_reason(reason)))

    def _tell_ended(self, number: int, ended: Terminated) -> None:
        del self._inlets[number]
        why = ReasonCode.IN_ORDER if ended.error is None else ReasonCode.RAISED
        self.send(note(ENDED, number, pack_reason(Reason.of(why, ended.error))))

    def _dead_letter(self, path: str, message: Any, reason: str) -> None:
        self.home.system.dead_letters.add(DeadLetter(path or f"//{self.home.name}", message, reason))


class _RemoteReply:
    """Where the answer to a question of a peer goes. Is a Reply."""

    __slots__ = ("_life", "_peer", "_question", "_said")

    def __init__(self, peer: RemotePeer, question: int) -> None:
        self._peer = peer
        self._question = question
        self._life = peer.lives
        self._said = False

    def done(self) -> bool:
        """Was it said, or is nobody there any more?"""
        return self._said or self._peer.lost or self._peer.lives != self._life

    def set_result(self, result: Any, /) -> None:
        """Send it."""
        if not self.done():
            self._said = True
            self._peer.answer(self._question, result)

    def set_exception(self, exception: BaseException, /) -> None:
        """Send that there is none."""
        if not self.done():
            self._said = True
            self._peer.refuse(self._question, exception)


def _refusal(path: str, reason: Reason) -> AiostormError:
    match reason.why:
        case ReasonCode.UNKNOWN:
            return NoSuchActorError(f"there is no actor {path}, or it is not for others: offer it there")
        case ReasonCode.RAISED | ReasonCode.UNREADABLE | ReasonCode.UNSENDABLE:
            what = {
                ReasonCode.RAISED: "failed on the question",
                ReasonCode.UNREADABLE: "could not be asked: the question cannot be read there",
                ReasonCode.UNSENDABLE: "answered, but the answer cannot be sent",
            }[reason.why]
            cause = RemoteFailureError(reason.kind, reason.text)
            failed = AskFailedError(f"{path} {what}: {cause}")
            failed.__cause__ = cause
            return failed
        case _:
            return MailboxClosedError(f"{path}: {reason.text}" if reason.text else f"actor {path} has stopped")
