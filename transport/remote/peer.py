"""RemotePeer: the traffic between the actors of this process and those of one peer.

    refs ─► channels ─► outbox ─► send queue ─ ─ ─►      notes, as many as wait in one payload
                                  link    ◄─ ─ ─      OPEN, TELL, ASK ─► inlets ─► actors here
                                                      REPLY, FAILED, TAKEN, ENDED ─► channels

1. A message arrives at most once. Messages of one sender to one actor arrive in the order in which they were sent,
   however often the link was cut. (The link guarantees both.)
2. When the peer is lost, all open questions end at once with PeerLostError, watchers are notified, and messages of its
   actors that mailboxes here have not taken become dead letters. A peer is lost when it has a new incarnation, or when
   the link is closed. A peer that is only cut off is not lost: senders wait for it.
3. A message that cannot be read here is lost alone: a caller gets an error; another message is logged and becomes a
   dead letter.
4. What is kept for a peer is bounded: by the flow control of channels (their number is limited), by living actors, and
   by waiting callers.

From: Erlang (signals between processes are ordered, and lost with the connection; monitors get `noconnection`); Pekko's
Artery (at most once; a UID for each start of a system). Here, in contrast, a link that is cut and resumed loses
nothing, and senders wait for a slow receiver.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from ...actors import ActorSystem, AskFailedError, DeadLetter, MailboxClosedError, Question, Ref, Terminated
from ..codec.payloads import PayloadKind, pack_payload
from ..errors import PeerLostError, ProtocolError, RemoteFailureError, UnsendableError
from .channel import Channel
from .exports import Exports, NoSuchActorError
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

if TYPE_CHECKING:
    from ...actors import Answer, Message
    from ...runtime import AiostormError, Rng
    from ..codec import Received
    from ..link.send_queue import SendQueue

_log = logging.getLogger(__name__)

PAYLOAD_BYTES: Final = 48 * 1024
"""The approximate size up to which notes share a payload."""

MAX_CHANNELS: Final = 65_536
"""How many channels a peer may have open to actors here."""


class Codec(Protocol):
    """Encodes messages."""

    def pack(self, message: Message) -> bytes:
        """Encode a message. UnsendableError."""
        ...

    def unpack(self, data: memoryview) -> Received:
        """Decode a message. ProtocolError."""
        ...


class NodeContext:
    """What all peers of a node share."""

    def __init__(self, name: str, system: ActorSystem, rng: Rng) -> None:
        self.name = name
        self.system = system
        self.exports = Exports(rng)
        self.numbers: Iterator[int] = itertools.count(int.from_bytes(rng.token_bytes(8), "big") >> 1)
        self.codec: Codec

    def pack(self, message: Message, target: object) -> bytes:
        """Encode a message. UnsendableError, also if it is too large; it names `target`."""
        packed = self.codec.pack(message)
        if len(packed) > MAX_MESSAGE_BYTES:
            raise UnsendableError(
                f"a message of {len(packed):,} bytes to {target}: at most {MAX_MESSAGE_BYTES:,}; send it in parts"
            )
        return packed


class RemotePeer:
    """One peer, for one link to it. The Gatherer of its notes."""

    def __init__(self, name: str, context: NodeContext, send_queue: SendQueue) -> None:
        self.name = name
        self.context = context
        self.lost = False
        self.incarnations = 0
        self.asks: dict[int, tuple[asyncio.Future[Answer], Channel]] = {}
        self._send_queue = send_queue
        self._outbox: deque[bytes] = deque()
        self._scheduled = False
        self._channels: dict[str | int, Channel] = {}
        self._by_number: dict[int, tuple[str | int, Channel]] = {}
        self._inlets: dict[int, Inlet] = {}
        self._handlers: dict[int, Callable[[int, memoryview], None]] = {
            OPEN: self._on_open,
            TELL: self._on_tell,
            ASK: self._on_ask,
            REPLY: self._on_reply,
            FAILED: self._on_failed,
            TAKEN: self._on_taken,
            ENDED: self._on_ended,
        }

    # -- for refs ----------------------------------------------------------------------------------------------------

    def channel(self, key: str | int, ref: Ref) -> Channel:
        """The channel to that actor; the first call opens it."""
        channel = self._channels.get(key)
        if channel is None:
            number = next(self.context.numbers)
            channel = self._channels[key] = Channel(number, ref, self.send, self.asks)
            self._by_number[number] = key, channel
            self.send(note(OPEN, number, pack_key(key)))
        return channel

    def send(self, packed: bytes) -> None:
        """Put a note into the outbox; does nothing if the peer is lost."""
        if self.lost:
            return
        self._outbox.append(packed)
        if not self._scheduled:
            self._scheduled = True
            self._send_queue.schedule(self)

    # -- Gatherer ----------------------------------------------------------------------------------------------------

    def next_payload(self) -> tuple[bytes | None, bool]:
        """All waiting notes, up to PAYLOAD_BYTES."""
        outbox = self._outbox
        if not outbox:
            self._scheduled = False
            return None, False
        taken = [outbox.popleft()]
        free_bytes = PAYLOAD_BYTES - len(taken[0])
        while outbox and len(outbox[0]) <= free_bytes:
            free_bytes -= len(outbox[0])
            taken.append(outbox.popleft())
        self._scheduled = bool(outbox)
        return pack_payload(PayloadKind.ACTOR, 0, b"".join(taken)), self._scheduled

    # -- incarnations --------------------------------------------------------------------------------------------------

    def started(self) -> None:
        """The peer has a new incarnation; a previous one is lost."""
        self.incarnations += 1
        if self.incarnations > 1:
            self.lose(lambda: PeerLostError(f"{self.name} was restarted: it may or may not have handled the question"))

    def close(self, error: Callable[[], AiostormError]) -> None:
        """The link is closed: the peer is lost."""
        self.lost = True
        self.lose(error)

    def lose(self, error: Callable[[], AiostormError]) -> None:
        """End all traffic with the current incarnation of the peer."""
        self._outbox.clear()
        inlets, self._inlets = self._inlets, {}
        for inlet in inlets.values():
            inlet.close(f"its sender, {self.name}, is lost")
        channels = [channel for _, channel in self._by_number.values()]
        self._channels.clear()
        self._by_number.clear()
        for channel in channels:
            channel.end(error, error())

    # -- incoming ----------------------------------------------------------------------------------------------------

    def on_payload(self, body: memoryview) -> None:
        """Handle a payload of kind ACTOR. ProtocolError if it is malformed."""
        handlers = self._handlers
        for op, number, data in notes_in(body):
            handlers[op](number, data)
            if self.lost:  # handling the note has closed the link
                return

    def _on_open(self, number: int, data: memoryview) -> None:
        if number in self._inlets or len(self._inlets) >= MAX_CHANNELS:
            raise ProtocolError(f"channel {number} is open already, or {MAX_CHANNELS:,} channels are")
        key = key_of(data)
        ref = self.context.exports.find_for(key, self.name)
        if ref is None:
            self.send(note(ENDED, number, pack_reason(Reason(ReasonCode.UNKNOWN))))
            return
        inlet = self._inlets[number] = Inlet(
            ref,
            send_taken=lambda messages, size_bytes: self.send(taken_note(number, messages, size_bytes)),
            send_ended=lambda ended: self._send_ended(number, ended),
            drop=self._dead_letter,
        )
        inlet.open()

    def _on_tell(self, number: int, data: memoryview) -> None:
        inlet = self._inlets.get(number)
        try:
            message = self.context.codec.unpack(data)
        except ProtocolError as error:
            _log.warning(
                "%s sent %s an unreadable message: %s", self.name, inlet.ref.path if inlet else "an actor", error
            )
            self._dead_letter(inlet.ref.path if inlet else "", bytes(data), str(error))
            if inlet is not None:
                inlet.skip(len(data))
            return
        if inlet is None:
            self._dead_letter("", message, f"{self.name} sent it to an actor that has ended or does not exist")
        else:
            inlet.tell(message, len(data))

    def _on_ask(self, number: int, data: memoryview) -> None:
        question, packed = question_of(data)
        inlet = self._inlets.get(number)
        if inlet is None:
            return  # the caller gets the end of the channel
        try:
            message = self.context.codec.unpack(packed)
        except ProtocolError as error:
            self._answer_failed(question, Reason.of(ReasonCode.UNREADABLE, error))
            inlet.skip(len(data))
            return
        inlet.ask(Question(message, _RemoteReply(self, question)), len(data))

    def _on_reply(self, number: int, data: memoryview) -> None:
        open_ask = self.asks.pop(number, None)
        if open_ask is None or open_ask[0].done():
            return  # too late
        try:
            open_ask[0].set_result(self.context.codec.unpack(data))
        except ProtocolError as error:
            open_ask[0].set_exception(error)

    def _on_failed(self, number: int, data: memoryview) -> None:
        reason = reason_of(data)
        open_ask = self.asks.pop(number, None)
        if open_ask is not None and not open_ask[0].done():
            open_ask[0].set_exception(_refusal(open_ask[1].path, reason))

    def _on_taken(self, number: int, data: memoryview) -> None:
        messages, size_bytes = amounts_of(data)
        found = self._by_number.get(number)
        if found is not None:
            found[1].taken(messages, size_bytes)

    def _on_ended(self, number: int, data: memoryview) -> None:
        reason = reason_of(data)
        found = self._by_number.pop(number, None)
        if found is None:
            return
        key, channel = found
        del self._channels[key]
        path = channel.path
        if reason.code is ReasonCode.UNKNOWN:
            channel.end(lambda: _refusal(path, reason), _refusal(path, reason))
        else:
            cause = RemoteFailureError(reason.kind, reason.text) if reason.code is ReasonCode.RAISED else None
            channel.end(lambda: MailboxClosedError(f"actor {path} has stopped"), cause)

    # -- outgoing ----------------------------------------------------------------------------------------------------

    def answer(self, question: int, value: Answer) -> None:
        """Send the answer of an actor."""
        try:
            self.send(note(REPLY, question, self.context.pack(value, self.name)))
        except UnsendableError as error:
            _log.warning("an answer to %s cannot be sent: %s", self.name, error)
            self._answer_failed(question, Reason.of(ReasonCode.UNSENDABLE, error))

    def refuse(self, question: int, error: BaseException) -> None:
        """Send that the question failed or was not handled."""
        raised = error.__cause__ if isinstance(error, AskFailedError) else None
        if raised is not None:
            self._answer_failed(question, Reason.of(ReasonCode.RAISED, raised))
        else:
            self._answer_failed(question, Reason.of(ReasonCode.CLOSED, error))

    def _answer_failed(self, question: int, reason: Reason) -> None:
        self.send(note(FAILED, question, pack_reason(reason)))

    def _send_ended(self, number: int, ended: Terminated) -> None:
        del self._inlets[number]
        code = ReasonCode.IN_ORDER if ended.error is None else ReasonCode.RAISED
        self.send(note(ENDED, number, pack_reason(Reason.of(code, ended.error))))

    def _dead_letter(self, path: str, message: Message, reason: str) -> None:
        self.context.system.dead_letters.add(DeadLetter(path or f"//{self.context.name}", message, reason))


class _RemoteReply:
    """The Reply for a question of a peer."""

    __slots__ = ("_incarnation", "_peer", "_question", "_sent")

    def __init__(self, peer: RemotePeer, question: int) -> None:
        self._peer = peer
        self._question = question
        self._incarnation = peer.incarnations
        self._sent = False

    def done(self) -> bool:
        """Was the answer sent, or is the peer's incarnation lost?"""
        return self._sent or self._peer.lost or self._peer.incarnations != self._incarnation

    def set_result(self, result: Answer, /) -> None:
        """Send the answer."""
        if not self.done():
            self._sent = True
            self._peer.answer(self._question, result)

    def set_exception(self, exception: BaseException, /) -> None:
        """Send that there is no answer."""
        if not self.done():
            self._sent = True
            self._peer.refuse(self._question, exception)


def _refusal(path: str, reason: Reason) -> AiostormError:
    match reason.code:
        case ReasonCode.UNKNOWN:
            return NoSuchActorError(f"there is no actor {path}, or it is not offered to this process: offer it there")
        case ReasonCode.RAISED | ReasonCode.UNREADABLE | ReasonCode.UNSENDABLE:
            what = {
                ReasonCode.RAISED: "failed to answer the question",
                ReasonCode.UNREADABLE: "could not be asked: its process cannot read the question",
                ReasonCode.UNSENDABLE: "answered, but the answer cannot be sent",
            }[reason.code]
            cause = RemoteFailureError(reason.kind, reason.text)
            failed = AskFailedError(f"{path} {what}: {cause}")
            failed.__cause__ = cause
            return failed
        case _:
            return MailboxClosedError(f"{path}: {reason.text}" if reason.text else f"actor {path} has stopped")
