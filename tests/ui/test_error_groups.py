"""Errors that are alike are one group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm import ErrorReport
from aiostorm.ui.error_groups import grouped


def error(text: str, time: float, component: str = "parse", task: int = 2) -> ErrorReport:
    return ErrorReport("t", component, task, "execute", text, f"Traceback\n{text}", f"<Tuple {time}>", time)


def test_numbers_do_not_count():
    [group] = grouped([error("ValueError: 12 at 0xdead", 5.0), error("ValueError: 7 at 0xbeef", 9.0, task=3)])
    assert (group.count, group.tasks, group.first_s, group.last_s) == (2, (2, 3), 5.0, 9.0)
    assert group.error == "ValueError: 7 at 0xbeef"
    assert group.on_tuple == "<Tuple 9.0>"


def test_components_and_texts_do():
    groups = grouped([error("a", 1.0), error("b", 3.0), error("a", 2.0, component="count")])
    assert [(g.component, g.error) for g in groups] == [("parse", "b"), ("count", "a"), ("parse", "a")]


def test_long_texts_are_cut():
    [group] = grouped([error("x" * 100_000, 1.0)])
    assert len(group.error) == len(group.traceback) == 20_000


def test_the_rest_of_a_long_text_does_not_count():
    alike = [ErrorReport("t", "c", 1, "execute", "x" * 20_000 + end, "", end * 20_001, 1.0) for end in "ab"]
    [group] = grouped(alike)
    assert (group.count, group.error) == (2, "x" * 20_000)
    assert group.on_tuple in ("a" * 20_000, "b" * 20_000)
    apart = [ErrorReport("t", "c", 1, "execute", "x" * 19_999 + end, "", None, 1.0) for end in "ab"]
    assert [group.on_tuple for group in grouped(apart)] == [None, None]


@given(st.lists(st.tuples(st.sampled_from(["a", "b 1", "b 2"]), st.sampled_from(["p", "q"]), st.floats(0, 100))))
def test_each_error_is_in_one_group(made):
    groups = grouped([error(text, time, component) for text, component, time in made])
    assert sum(group.count for group in groups) == len(made)
    assert [g.last_s for g in groups] == sorted((g.last_s for g in groups), reverse=True)
    assert all(group.first_s <= group.last_s for group in groups)
