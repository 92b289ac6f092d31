"""The machines of remote refs: windows never lock up, notes come out as they went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import ProtocolError
from aiostorm.transport.remote.flow_control import MAX_BYTES, MAX_MESSAGES, ReceiverFlow, SenderFlow
from aiostorm.transport.remote.notes import (
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
