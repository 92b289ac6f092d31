"""The base class of aggregates, and several at once."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.windows import Aggregate, Combined, Count, Mean, Min, Sum, Window, WindowError

WINDOW = Window(0, 10)


class Bare(Aggregate):
    """Has no method of its own."""


def test_what_an_aggregate_has_not_written_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match=r"Bare has no init_state\(window\)"):
        Bare().init_state(WINDOW)
    with pytest.raises(NotImplementedError, match=r"Bare has no execute\(value, state, window\)"):
        Bare().execute(1, 2, WINDOW)
    with pytest.raises(NotImplementedError, match="Bare takes no batches"):
        Bare().execute_batch([], [], {})
    with pytest.raises(WindowError, match=r"Bare has no merge\(first, second\)"):
        Bare().merge(1, 2)


def test_what_an_aggregate_is_without_methods_of_its_own() -> None:
    bare, state = Bare(), [1]
    assert bare.purge(state, WINDOW) is bare.pack_state(state) is bare.unpack_state(state) is state
    assert (bare.merges, bare.packs_states, bare.changes_in_place, bare.batches) == (False,) * 4
    assert (bare.whole, bare.gives_states, bare.wants_a_field) == (True, True, False)
    assert (bare.fields, bare.names, bare.title) == ((), (), "Bare")
    assert bare.in_rows() is bare.bound(["a"]) is bare
    assert (bare.parts, bare.together([7]), bare.together_batch([[7, 8]])) == ((bare,), 7, [7, 8])
    assert (bare.column(state) is state, bare.takes(state), bare.new_states()) == (True, False, {})


def test_combined_uses_whole_rows_if_one_of_its_aggregates_does() -> None:
    assert not Combined(rows=Count(), total=Sum("a")).whole
    assert Combined(rows=Count(), total=Sum()).whole
    assert Combined(rows=Count(), total=Sum("a"), least=Min("b"), again=Sum("a")).fields == ("a", "b")


class Twice(Aggregate):
    """The sum and the number of rows, as text."""

    @property
    def parts(self) -> tuple[Aggregate, ...]:
        return Sum(), Count()

    def together(self, results: Any) -> Any:
        return "/".join(map(str, results))


@pytest.mark.parametrize("more", [True, False])
def test_the_parts_of_several_aggregates_come_together(more: bool) -> None:
    named: dict[str, Aggregate] = {"a": Count(), "b": Twice(), "c": Mean()} if more else {"a": Count(), "c": Mean()}
    columns = [[1, 2], [3, 4], [5, 6], [7, 8]] if more else [[1, 2], [7, 8]]
    rows = [(1, "3/5", 7), (2, "4/6", 8)] if more else [(1, 7), (2, 8)]
    combined = Combined(named)
    assert list(combined.together_batch(columns)) == [dict(zip(named, row, strict=True)) for row in rows]
    assert [combined.together(row) for row in zip(*columns, strict=True)] == list(combined.together_batch(columns))
    in_rows = combined.in_rows()
    assert (in_rows.names, list(in_rows.together_batch(columns))) == (tuple(named), rows)
    assert [in_rows.together(row) for row in zip(*columns, strict=True)] == rows


def test_all_or_some_of_several_aggregates_come_together_by_their_own_rule() -> None:
    combined = Combined(a=Twice(), b=Twice())
    assert combined.together_batch([[1], [2], [3], [4]]) == [{"a": "1/2", "b": "3/4"}]
    assert combined.in_rows().together_batch([[1], [2], [3], [4]]) == [("1/2", "3/4")]
