"""Why a spout waits: the way to the mailbox, and the words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.backpressure import Backpressure, ComponentPressure, SpoutPacing
from aiostorm.ui.cause import causes, in_words


def paced(spout: str = "orders", *why: str, wait_s: float = 0.002, task: int = 1) -> SpoutPacing:
    return SpoutPacing(spout, task, wait_s, 100.0 + task, why)


def test_the_way_from_the_spout_to_the_mailbox():
    pressure = Backpressure(components={"pay": ComponentPressure(0.92)}, spouts=(paced("orders", "pay"),))
    [cause] = causes(pressure, {"orders": ["check", "log"], "check": ["pay"], "log": [], "pay": []})
    assert cause.path == ("orders", "check", "pay")
    assert cause.mailbox == "pay"
    assert cause.words == "orders waits 2 ms for each tuple, because pay cannot keep up: its mailbox is 92 % full"


def test_a_spout_is_named_once_with_its_slowest_task():
    spouts = (paced("orders", "pay", wait_s=0.002), paced("orders", "pay", wait_s=0.004, task=2))
    [cause] = causes(Backpressure(spouts=spouts), {"orders": ["pay"]})
    assert (cause.wait_s, cause.since_s) == (0.004, 101.0)


def test_the_fullest_of_several_comes_first():
    components = {"a": ComponentPressure(0.3), "b": ComponentPressure(0.9)}
    found = causes(Backpressure(components=components, spouts=(paced("s", "a", "b"),)), {"s": ["a", "b"]})
    assert [cause.mailbox for cause in found] == ["b", "a"]


def test_without_a_reason_it_says_so():
    [cause] = causes(Backpressure(spouts=(paced("orders"),)), {})
    assert (cause.mailbox, cause.path) == ("", ())
    assert cause.words == "orders waits 2 ms for each tuple; the reason is not known yet"


def test_a_mailbox_that_is_not_full_is_not_said_to_be_full():
    assert in_words("s", 2.5, "b", 0.1) == "s waits 2.5 s for each tuple, because b cannot keep up"
    assert in_words("s", 0.0004, "b", 0.0).startswith("s waits 400 µs")


NAMES = ["s", "a", "b", "c", "d"]


@given(
    st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4)),
    st.lists(st.sampled_from(NAMES[1:]), max_size=4),
)
def test_every_step_of_a_way_is_an_edge(targets, guilty):
    for cause in causes(Backpressure(spouts=(paced("s", *guilty),)), targets):
        if cause.mailbox and cause.path != ("s", cause.mailbox):
            assert all(b in targets[a] for a, b in zip(cause.path, cause.path[1:], strict=False))
        if cause.mailbox:
            assert (cause.path[0], cause.path[-1]) == ("s", cause.mailbox)
            assert len(set(cause.path)) == len(cause.path)


def test_nothing_is_slowed_down():
    assert causes(Backpressure(), {}) == ()
