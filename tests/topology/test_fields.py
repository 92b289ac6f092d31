"""Fields: ordered, distinct names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import Fields

names = st.lists(st.text(min_size=1), unique=True)


@given(names)
def test_names_keep_their_order_and_place(given_names: list[str]) -> None:
    fields = Fields(*given_names)
    assert list(fields) == list(fields.names) == given_names
    assert len(fields) == len(given_names)
    assert [fields.position(name) for name in given_names] == list(range(len(given_names)))
    assert all(name in fields for name in given_names)
    assert fields == Fields(given_names)
    assert hash(fields) == hash(Fields(given_names))
    assert fields[:1] == tuple(given_names[:1])


def test_fields_differ_in_order() -> None:
    assert Fields("a", "b") != Fields("b", "a")
    assert Fields("a") != ("a",)
    assert repr(Fields("a", "b")) == "Fields('a', 'b')"


@pytest.mark.parametrize("bad", [("a", "a"), ("",), (1,), (["a"], "a"), (None,)], ids=str)
def test_names_must_be_distinct_text(bad: tuple[object, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Fields(*bad)  # type: ignore[arg-type]


def test_an_unknown_name_lists_the_names_there_are() -> None:
    with pytest.raises(KeyError, match="no field 'c'; the fields are: a, b"):
        Fields("a", "b").position("c")
    with pytest.raises(KeyError, match=r"\(none\)"):
        Fields().position("c")
