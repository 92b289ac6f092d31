"""The machines of remote refs: windows never lock up, notes come out as they went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import ProtocolError
from aiostorm.transport.codec.payloads import PAYLOAD_HEADER_BYTES
from aiostorm.transport.link.sequence import MAX_PAYLOAD_BYTES
from aiostorm.transport.remote.flow_control import MAX_BYTES, MAX_MESSAGES, ReceiverFlow, SenderFlow
from aiostorm.transport.remote.notes import (
    MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES,
    MAX_REASON_BYTES,
    Reason,
    ReasonCode,
    amounts_of,
    ask_note,
    key_of,
    note,
    notes_in,
    pack_key,
    pack_reason,
    question_of,
    reason_of,
    taken_note,
)

LARGEST = 1_048_000
numbers = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(st.sampled_from(["send", "come", "take"]), st.integers(0, LARGEST)), max_size=400))
def test_a_window_bounds_what_waits_and_never_locks_up(steps: list[tuple[str, int]]) -> None:
    sent, taken = SenderFlow(), ReceiverFlow()
    under_way: list[int] = []
    waiting: list[int] = []

    def announce(amounts: tuple[int, int] | None) -> None:
        if amounts is not None:
            sent.taken(*amounts)

    for step, size in steps:
        if step == "send" and not sent.is_full:
            sent.sent(size)
            under_way.append(size)
        elif step == "come" and under_way:
            waiting.append(under_way.pop(0))
            taken.waits(waiting[-1])
        elif step == "take" and waiting:
            announce(taken.waited(waiting.pop(0)))
        assert len(under_way) + len(waiting) <= sent.messages <= MAX_MESSAGES
        assert sum(under_way) + sum(waiting) <= sent.size_bytes < MAX_BYTES + LARGEST
    for size in under_way:
        announce(taken.took(size))
    while waiting:
        announce(taken.waited(waiting.pop(0)))
    assert not sent.is_full, "all was taken, so the sender goes on"


def test_small_messages_are_reported_in_quarters_of_the_limit() -> None:
    taken = ReceiverFlow()
    announced = [taken.took(10) for _ in range(MAX_MESSAGES)]
    assert [amounts for amounts in announced if amounts] == [(MAX_MESSAGES // 4, 10 * MAX_MESSAGES // 4)] * 4


def test_a_sender_beyond_the_limit_breaks_the_protocol() -> None:
    taken = ReceiverFlow()
    for _ in range(MAX_MESSAGES):
        taken.waits(1)
    with pytest.raises(ProtocolError, match="the limit is reached"):
        taken.waits(1)


@given(st.lists(st.tuples(st.integers(1, 7), numbers, st.binary(max_size=50))))
def test_notes_one_after_another(notes: list[tuple[int, int, bytes]]) -> None:
    body = b"".join(note(*each) for each in notes)
    assert [(op, number, bytes(data)) for op, number, data in notes_in(memoryview(body))] == notes


@given(st.binary(max_size=200))
def test_noise_is_notes_or_an_error(noise: bytes) -> None:
    try:
        for _, _, data in notes_in(memoryview(noise)):
            for read in (question_of, amounts_of, key_of, reason_of):
                try:
                    read(data)
                except ProtocolError:
                    continue
    except ProtocolError:
        pass


@given(numbers, numbers, st.binary(max_size=20), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_asks_and_amounts(channel: int, question: int, message: bytes, messages: int, size_bytes: int) -> None:
    body = ask_note(channel, question, message) + taken_note(channel, messages, size_bytes)
    (_, to, asked), (_, of, taken) = notes_in(memoryview(body))
    assert to == of == channel
    number, rest = question_of(asked)
    assert (number, bytes(rest)) == (question, message)
    assert amounts_of(taken) == (messages, size_bytes)


@given(numbers | st.text(min_size=1, max_size=60))
def test_keys(key: int | str) -> None:
    assert key_of(memoryview(pack_key(key))) == key


@given(st.sampled_from(ReasonCode), st.text(st.characters(exclude_characters="\0")), st.text())
def test_reasons(why: ReasonCode, kind: str, text: str) -> None:
    assert reason_of(memoryview(pack_reason(Reason(why, kind, text)))) == Reason(why, kind, text)


def test_a_reason_of_any_length_fits() -> None:
    packed = pack_reason(Reason(ReasonCode.RAISED, "k" * 100_000, "ü" * 100_000))
    assert len(packed) <= MAX_REASON_BYTES
    assert reason_of(memoryview(packed)).text.startswith("üüü")


# -- flow control, each rule alone -------------------------------------------------------------------------------------


def test_a_sender_is_full_at_the_limit_of_messages_or_bytes_and_not_before() -> None:
    flow = SenderFlow()
    for _ in range(MAX_MESSAGES - 1):
        flow.sent(1)
        assert not flow.is_full
    flow.sent(1)
    assert flow.is_full
    flow.taken(1, 1)
    assert (flow.is_full, flow.messages, flow.size_bytes) == (False, MAX_MESSAGES - 1, MAX_MESSAGES - 1)
    flow.sent(1)
    flow.sent(1)
    flow.taken(1, 1)
    assert flow.is_full, "the limit of messages"
    flow = SenderFlow()
    flow.sent(MAX_BYTES - 1)
    assert not flow.is_full
    flow.sent(1)
    assert flow.is_full
    flow.taken(1, 0)
    assert flow.is_full
    flow.taken(0, 1)
    assert not flow.is_full


@pytest.mark.parametrize("amounts", [(2, 10), (1, 11), (3, 20), (0, 11)])
def test_no_more_can_be_taken_than_was_sent(amounts: tuple[int, int]) -> None:
    flow = SenderFlow()
    flow.sent(10)
    with pytest.raises(ProtocolError, match="reports more messages taken than were sent"):
        flow.taken(*amounts)
    flow = SenderFlow()
    flow.sent(10)
    flow.taken(1, 10)
    assert (flow.messages, flow.size_bytes) == (0, 0)


def test_a_receiver_accepts_less_than_the_bytes_and_one_message_more() -> None:
    taken = ReceiverFlow()
    taken.waits(MAX_BYTES - 1)
    taken.waits(LARGEST)
    assert (taken.waiting, taken.waiting_bytes) == (2, MAX_BYTES - 1 + LARGEST)
    with pytest.raises(ProtocolError, match=r"2 messages to an actor wait, 1,310,143 bytes: the limit is reached"):
        taken.waits(0)
    assert taken.waited(LARGEST) == (1, LARGEST)
    assert (taken.waiting, taken.waiting_bytes) == (1, MAX_BYTES - 1)
    taken.waits(5)


def test_large_messages_are_reported_in_quarters_of_the_limit() -> None:
    taken = ReceiverFlow()
    assert taken.took(MAX_BYTES // 4 - 1) is None
    assert taken.took(1) == (2, MAX_BYTES // 4)
    assert taken.took(1) is None, "from the start again"
    assert taken.took(MAX_BYTES // 4) == (2, MAX_BYTES // 4 + 1)
    assert taken.took(MAX_BYTES // 4) == (1, MAX_BYTES // 4)


# -- notes, each rule alone --------------------------------------------------------------------------------------------


def test_notes_are_those_of_the_table() -> None:
    assert note(2, 258, b"hi") == b"\2" + bytes(6) + b"\1\2" + b"\0\0\0\2hi"
    assert ask_note(1, 2, b"hi") == b"\3" + bytes(7) + b"\1" + b"\0\0\0\x0a" + bytes(7) + b"\2hi"
    assert taken_note(1, 2, 3) == b"\6" + bytes(7) + b"\1" + b"\0\0\0\x08" + b"\0\0\0\2\0\0\0\3"
    assert pack_key("name") == b"nname"
    assert pack_key(258) == b"a" + bytes(6) + b"\1\2"
    assert pack_reason(Reason(ReasonCode.RAISED, "ValueError", "no")) == b"\1ValueError\0no"
    assert MAX_PAYLOAD_BYTES - PAYLOAD_HEADER_BYTES - len(ask_note(0, 0, b"")) == MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (note(2, 1, b"hi") + b"\2" + bytes(11), "cut short: 12 bytes of a header of 13"),
        (note(2, 1, b"hi")[:-1], "of kind 2 with 2 bytes, where 1 are left"),
        (note(0, 1), "of kind 0 with 0 bytes"),
        (note(8, 1), "of kind 8 with 0 bytes"),
    ],
)
def test_a_malformed_note_is_refused_behind_good_ones(body: bytes, problem: str) -> None:
    found = notes_in(memoryview(note(1, 5, b"n") + body))
    assert next(found)[:2] == (1, 5)
    with pytest.raises(ProtocolError, match=problem):
        list(found)


def test_the_parts_of_a_note_have_their_sizes() -> None:
    assert question_of(memoryview(bytes(7) + b"\5")) == (5, b"")
    with pytest.raises(ProtocolError, match="a question of 7 bytes has no number"):
        question_of(memoryview(bytes(7)))
    for size in (7, 9):
        with pytest.raises(ProtocolError, match=f"a TAKEN of {size} bytes: it has 8"):
            amounts_of(memoryview(bytes(size)))


@pytest.mark.parametrize("body", [b"", b"n", b"a", b"a" + bytes(7), b"a" + bytes(9), b"x" + bytes(8), b"n\xff"])
def test_what_is_no_key_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="neither the name nor the number of an actor"):
        key_of(memoryview(body))


def test_a_name_has_at_most_256_bytes() -> None:
    assert key_of(memoryview(b"n" + b"x" * MAX_NAME_BYTES)) == "x" * 256
    with pytest.raises(ProtocolError, match="neither the name nor the number of an actor: 258 bytes"):
        key_of(memoryview(b"n" + b"x" * (MAX_NAME_BYTES + 1)))


def test_a_zero_byte_in_the_type_of_an_error_does_not_end_it() -> None:
    assert reason_of(memoryview(pack_reason(Reason(ReasonCode.RAISED, "a\0b", "c\0d")))) == Reason(
        ReasonCode.RAISED, "a?b", "c\0d"
    )
    assert Reason.of(ReasonCode.CLOSED, None) == Reason(ReasonCode.CLOSED, "", "")
    assert Reason.of(ReasonCode.RAISED, ValueError("no")) == Reason(ReasonCode.RAISED, "ValueError", "no")


def test_the_codes_of_reasons_are_those_of_the_protocol() -> None:
    names = ("IN_ORDER", "RAISED", "CLOSED", "UNKNOWN", "UNREADABLE", "UNSENDABLE")
    assert [(code.name, int(code)) for code in ReasonCode] == [(name, at) for at, name in enumerate(names)]
    with pytest.raises(ProtocolError, match="a reason of kind 6: this version knows 0 to 5"):
        reason_of(memoryview(b"\6a\0b"))


def test_a_reason_has_1_to_8192_bytes_and_its_parts_are_cut() -> None:
    assert reason_of(memoryview(b"\1" + b"x" * 8191)).kind == "x" * 8191
    for size in (0, 8193):
        with pytest.raises(ProtocolError, match=f"a reason of {size} bytes: it has 1 to 8192"):
            reason_of(memoryview(b"\1" * size))
    found = reason_of(memoryview(pack_reason(Reason(ReasonCode.RAISED, "k" * 9_000, "t" * 9_000))))
    assert (found.kind, found.text) == ("k" * 2048, "t" * 4096)
