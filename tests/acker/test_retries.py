"""Retries: what is done with a failed message, and how many failures are remembered."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.acker import FailureAction, Retries


def test_without_a_limit_the_spout_is_notified_of_each_failure() -> None:
    retries = Retries(None)
    assert [retries.failed("m", n) for n in (1, 2, 3)] == [FailureAction.NOTIFY_SPOUT] * 3
    assert retries.failures_of("m") == 3
    assert retries.failures_of("other") == 0
    retries.settled("m")
    assert retries.failures_of("m") == 0
    assert not retries.suspects


def test_with_a_limit_the_framework_replays_so_often_and_then_gives_up() -> None:
    retries = Retries(2)
    assert [retries.failed("m", n) for n in (1, 2, 3, 4)] == [
        FailureAction.REPLAY,
        FailureAction.REPLAY,
        FailureAction.DEAD_LETTER,
        FailureAction.DEAD_LETTER,
    ]
    assert not retries.suspects  # the count travels with the replay
    assert Retries(0).failed("m", 1) is FailureAction.DEAD_LETTER


def test_a_message_id_need_not_be_hashable() -> None:
    retries = Retries(None)
    assert retries.failed(["m"], 1) is FailureAction.NOTIFY_SPOUT
    assert retries.failures_of(["m"]) == 0
    retries.failed("m", 1)
    retries.settled(["m"])
    assert retries.failures_of("m") == 1


@given(
    remembered=st.integers(1, 4),
    steps=st.lists(st.tuples(st.sampled_from(["failed", "settled"]), st.integers(0, 6)), max_size=60),
)
def test_the_failures_of_the_last_so_many_messages_are_counted(remembered: int, steps: list[tuple[str, int]]) -> None:
    retries = Retries(None, remembered)
    model: OrderedDict[int, int] = OrderedDict()
    for what, message_id in steps:
        if what == "failed":
            failures = retries.failures_of(message_id) + 1
            assert retries.failed(message_id, failures) is FailureAction.NOTIFY_SPOUT
            model.pop(message_id, None)
            model[message_id] = failures
            if len(model) > remembered:
                del model[next(iter(model))]  # it counts from one again
        else:
            retries.settled(message_id)
            model.pop(message_id, None)
        assert dict(retries.suspects) == dict(model)
        assert all(retries.failures_of(i) == model.get(i, 0) for i in range(7))
