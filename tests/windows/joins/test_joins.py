"""Joins against SQLite, and against nested loops for their order; what is refused, and by which words."""

from __future__ import annotations

import math
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.topology import Fields, StreamId
from aiostorm.windows import HashJoin, JoinError, JoinKind, Joins, WindowError

from ...tries import examples

FIELDS = Fields("k", "j", "v")
NAN = math.nan
VALUES = (None, None, 0, 1, 1, 1.0, True, 2, 2.5, "1", "a", b"a", "", NAN, -0.0)
SQL = {
    JoinKind.INNER: "INNER JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
}
KINDS = tuple(SQL) if sqlite3.sqlite_version_info >= (3, 39) else (JoinKind.INNER, JoinKind.LEFT)
"""Older ones know no RIGHT and no FULL JOIN. The nested loops do."""

Table = list[tuple[Any, ...]]
Wish = tuple[JoinKind, int, tuple[str, ...], tuple[str, ...]]
"""Of a step: kind, prior input, key, key of the prior input."""


def some_join(rng: random.Random, kinds: Sequence[JoinKind] = tuple(SQL)) -> tuple[list[Wish], list[Table]]:
    """A chain, and a window of its inputs. Empty ones, skewed ones, ones with the same key throughout."""
    wishes: list[Wish] = []
    for number in range(1, rng.choice((2, 2, 2, 3, 3, 4))):
        keys = rng.choice(((("k",), ("k",)), (("k",), ("j",)), (("k", "j"), ("j", "k"))))
        wishes.append((rng.choice(kinds), rng.randrange(number), *keys))
    tables: list[Table] = []
    for _ in range(len(wishes) + 1):
        values = rng.choice((VALUES, VALUES[:6], VALUES[3:7], (1,)))
        count = rng.choice((0, 1, 2, 4, 7))
        tables.append([(rng.choice(values), rng.choice(values), at) for at in range(count)])
    return wishes, tables


def machine(wishes: list[Wish], **more: Any) -> HashJoin:
    joins = Joins.of("t0", "k")
    for number, (kind, prior, key, prior_key) in enumerate(wishes, 1):
        joins = joins.joined(kind, f"t{number}", key, f"t{prior}", prior_key)
    return joins.machine({StreamId(f"t{number}"): FIELDS for number in range(len(wishes) + 1)}, **more)


def by_sqlite(wishes: list[Wish], tables: list[Table]) -> Counter[tuple[int | None, ...]]:
    with closing(sqlite3.connect(":memory:")) as sql:
        for number, rows in enumerate(tables):
            sql.execute(f"CREATE TABLE t{number} (k, j, v)")  # no types: nothing is made of "1" but a text
            sql.executemany(f"INSERT INTO t{number} VALUES (?, ?, ?)", rows)  # noqa: S608 - a number of ours
        text = "SELECT " + ", ".join(f"t{number}.v" for number in range(len(tables))) + " FROM t0"  # noqa: S608 - names of ours
        for number, (kind, prior, key, prior_key) in enumerate(wishes, 1):
            pairs = [f"t{number}.{mine} = t{prior}.{other}" for mine, other in zip(key, prior_key, strict=True)]
            text += f" {SQL[kind]} t{number} ON {' AND '.join(pairs)}"
        return Counter(sql.execute(text))


def by_loops(wishes: list[Wish], tables: list[Table]) -> list[tuple[int | None, ...]]:
    """Plainly and slowly, in the order that is promised."""
    joined: list[tuple[int | None, ...]] = [(place,) for place in range(len(tables[0]))]
    for number, (kind, prior, key, prior_key) in enumerate(wishes, 1):
        partners = [
            [
                at
                for at, row in enumerate(tables[number])
                if places[prior] is not None
                and equal(
                    [row[FIELDS.position(name)] for name in key],
                    [tables[prior][places[prior]][FIELDS.position(name)] for name in prior_key],
                )
            ]
            for places in joined
        ]
        before = joined
        joined = []
        for places, found in zip(before, partners, strict=True):
            joined += [(*places, at) for at in found]
            if not found and kind in (JoinKind.LEFT, JoinKind.FULL):
                joined.append((*places, None))
        if kind in (JoinKind.RIGHT, JoinKind.FULL):
            met = {at for found in partners for at in found}
            joined += [(*[None] * number, at) for at in range(len(tables[number])) if at not in met]
    return joined


def equal(first: list[Any], second: list[Any]) -> bool:
    return all(one is not None and one == other for one, other in zip(first, second, strict=True))


@settings(max_examples=examples(150))
@given(rng=st.randoms(use_true_random=False))
def test_joins_are_those_of_sqlite(rng: random.Random) -> None:
    wishes, tables = some_join(rng, KINDS)
    assert Counter(machine(wishes).places(tables)) == by_sqlite(wishes, tables)


@settings(max_examples=examples(150))
@given(rng=st.randoms(use_true_random=False))
def test_joins_come_in_the_order_of_nested_loops(rng: random.Random) -> None:
    wishes, tables = some_join(rng)
    assert list(machine(wishes).places(tables)) == by_loops(wishes, tables)


@pytest.mark.slow
def test_three_thousand_joins() -> None:
    for seed in range(3_000):
        wishes, tables = some_join(random.Random(seed), KINDS)
        places = list(machine(wishes).places(tables))
        assert Counter(places) == by_sqlite(wishes, tables), seed
        assert places == by_loops(wishes, tables), seed


def planted(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Bugs that the oracle must find, one at a time."""
    keeps_left = JoinKind.keeps_left
    with patch.context() as one:
        one.setattr(JoinKind, "keeps_left", property(lambda self: self is JoinKind.LEFT))
        yield "a full join that forgets the left"
    with patch.context() as one:
        one.setattr(JoinKind, "keeps_right", property(lambda self: self is JoinKind.RIGHT))
        yield "a full join that forgets the right"
    with patch.context() as one:
        one.setattr("aiostorm.windows.joins.hash.equals_itself", lambda key: key is not None)
        yield "NaN is itself"
    assert JoinKind.keeps_left is keeps_left


def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for bug in planted(monkeypatch):
        assert any(differs(random.Random(seed)) for seed in range(300)), bug
    assert not any(differs(random.Random(seed)) for seed in range(100))


def differs(rng: random.Random) -> bool:
    wishes, tables = some_join(rng)
    return list(machine(wishes).places(tables)) != by_loops(wishes, tables)


ORDERS = [(1, "ann", 5), (2, "bob", 7), (3, None, 9), (4, "ann", 2)]
CLICKS = [("ann", "/a"), ("ann", "/b"), ("cyd", "/c"), (None, "/d")]
READ = {StreamId("orders"): Fields("id", "user", "price"), StreamId("clicks"): Fields("user", "url")}


@pytest.mark.parametrize(
    ("kind", "gives"),
    [
        ("join", [("ann", 5, "/a"), ("ann", 5, "/b"), ("ann", 2, "/a"), ("ann", 2, "/b")]),
        (
            "left_join",
            [("ann", 5, "/a"), ("ann", 5, "/b"), ("bob", 7, None), (None, 9, None), ("ann", 2, "/a"), ("ann", 2, "/b")],
        ),
        (
            "right_join",
            [
                ("ann", 5, "/a"),
                ("ann", 5, "/b"),
                ("ann", 2, "/a"),
                ("ann", 2, "/b"),
                (None, None, "/c"),
                (None, None, "/d"),
            ],
        ),
        (
            "full_join",
            [
                ("ann", 5, "/a"),
                ("ann", 5, "/b"),
                ("bob", 7, None),
                (None, 9, None),
                ("ann", 2, "/a"),
                ("ann", 2, "/b"),
                (None, None, "/c"),
                (None, None, "/d"),
            ],
        ),
    ],
)
def test_each_kind(kind: str, gives: list[tuple[Any, ...]]) -> None:
    joins = getattr(Joins.of("orders", "user"), kind)("clicks", "user").select("orders:user, price, url")
    assert joins.outputs() == Fields("orders:user", "price", "url")
    assert list(joins.machine(READ).rows([ORDERS, CLICKS])) == gives


def test_names_of_what_is_given() -> None:
    joins = Joins.of("orders", "user").join("clicks", "user")
    assert joins.outputs(READ) == Fields("id", "orders:user", "price", "clicks:user", "url")
    assert next(joins.machine(READ).rows([ORDERS, CLICKS])) == (1, "ann", 5, "ann", "/a")
    named = joins.select("orders:default:user as buyer", "price AS cents, clicks: user as clicker")
    assert named.outputs(READ) == Fields("buyer", "cents", "clicker")
    assert next(named.machine(READ).rows([ORDERS, CLICKS])) == ("ann", 5, "ann")
    assert joins.selected == ()  # each call gives another one


def test_a_stream_of_a_component() -> None:
    read = {StreamId("shop", "orders"): Fields("user"), StreamId("shop"): Fields("user", "url")}
    joins = Joins.of("shop:orders", "user").join("shop", "user").select("shop:orders:user as buyer, shop:url")
    assert list(joins.machine(read).rows([[("ann",)], [("ann", "/a")]])) == [("ann", "/a")]


def test_the_result_of_a_join_is_joined_again() -> None:
    """Its fields have the names of inputs in them."""
    read = {StreamId("joined"): Fields("orders:user", "url"), StreamId("users"): Fields("id", "name")}
    joins = Joins.of("joined", "orders:user").join("users", "id").select("orders:user, joined:url, name")
    assert joins.problems(read) == []
    assert list(joins.machine(read).rows([[("ann", "/a")], [("ann", "Ann")]])) == [("ann", "/a", "Ann")]


def test_a_dot_leads_into_a_mapping() -> None:
    read = {StreamId("a"): Fields("user", "a.b"), StreamId("b"): Fields("a", "id")}
    joins = (
        Joins.of("a", "user.id").left_join("b", "id").select("user.address.city, a.b, a:user.none.at.all as nothing")
    )
    users = [({"id": 1, "address": {"city": "Ulm"}}, "exactly this one"), (None, 2)]
    machine = joins.machine(read)
    assert list(machine.rows([users, [({"b": 0}, 1)]])) == [("Ulm", "exactly this one", None), (None, 2, None)]
    with pytest.raises(JoinError, match=r"a:user\.id: there is no 'id' in a str"):
        list(machine.rows([[("text", 1)], []]))


def test_keys_that_are_equal() -> None:
    """One number is one key, as in SQL and as a fields grouping has it; a number is not its digits."""
    read = {StreamId("a"): Fields("k"), StreamId("b"): Fields("k")}
    join = Joins.of("a", "k").join("b", "k").machine(read)
    assert list(join.places([[(1,), ("1",), (b"1",)], [(True,), (1.0,), ("1",)]])) == [(0, 0), (0, 1), (1, 2)]
    nothing = [(None,), (NAN,), ((1, None),), ((1, (2, NAN)),)]
    assert list(join.places([nothing, nothing])) == []
    assert list(join.places([[((1, 2),), ((),)], [((1.0, 2),), ((),)]])) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("key", [[1], {"a": 1}, (1, [2])])
def test_a_key_without_a_hash(key: Any) -> None:
    read = {StreamId("a"): Fields("k"), StreamId("b"): Fields("k")}
    join = Joins.of("a", "k").join("b", "k").machine(read)
    with pytest.raises(JoinError, match=rf"b:k: a {type(key).__name__} has no hash"):
        list(join.rows([[], [(1,), (key,)]]))


def test_skewed_keys_end_at_the_limit() -> None:
    """Also in the middle of a chain of which nothing is left at its end; and no row more is made than was asked for."""
    skewed = [(1, 1, at) for at in range(1_000)]
    join = machine([(JoinKind.INNER, 0, ("k",), ("k",))], max_rows=5_000)
    given = []
    with pytest.raises(JoinError, match=r"the join by t1:k gives more than 5000 rows.*max_joined"):
        given.extend(join.places([skewed, skewed]))
    assert len(given) == 5_000
    assert len(list(join.places([skewed[:5], skewed]))) == 5_000
    rows = machine([(JoinKind.INNER, 0, ("k",), ("k",))], max_rows=10**9).rows([skewed, skewed])
    assert [next(rows)[2] for _ in range(3)] == [0, 0, 0]
    chain = machine([(JoinKind.INNER, 0, ("k",), ("k",)), (JoinKind.INNER, 0, ("k",), ("k",))], max_rows=5_000)
    with pytest.raises(JoinError, match="t1:k"):
        list(chain.places([skewed, skewed, []]))
    kept = machine([(JoinKind.FULL, 0, ("k",), ("k",))], max_rows=3)
    with pytest.raises(JoinError, match="more than 3 rows"):
        list(kept.places([[(1, 1, 0), (2, 2, 1)], [(3, 3, 0), (4, 4, 1)]]))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Joins.of("", "k"), "give a component's id"),
        (lambda: Joins.of(5, "k"), "give a component's id"),
        (lambda: Joins.of("a", ""), "name of a field"),
        (lambda: Joins.of("a", ()), "name of a field"),
        (lambda: Joins.of("a", ("k", 5)), "name of a field"),
        (lambda: Joins.of("a", "k").join("a", "k"), "a is joined already"),
        (lambda: Joins.of("a", "k").join("a:default", "k"), "a is joined already"),
        (
            lambda: Joins.of("a", "k").join("c", "k", prior="b"),
            "c is joined to b, .* before it: give one of a",
        ),
        (lambda: Joins.of("a", "k").join("b", "k", "b"), "not an input before it"),
        (lambda: Joins.of("a", "k").join("b", "k").join("c", "k"), "to which of a, b is c joined.*prior='a'"),
        (lambda: Joins.of("a", "k").join("b", ("k", "j")), r"2 field\(s\) \(k, j\) to 1 of a \(k\)"),
        (lambda: Joins.of("a", "k").join("b", "k", prior_key=("k", "j")), "give as many"),
        (lambda: Joins.of("a", "k").select(), "select of nothing"),
        (lambda: Joins.of("a", "k").select(" , "), "select of nothing"),
        (lambda: Joins.of("a", "k").select(5), "give names"),
        (lambda: Joins.of("a", "k").select("x, y, x"), "gives x twice; call one of them otherwise: 'x as …'"),
        (lambda: Joins.of("a", "k").select("x, y as x"), "gives x twice"),
        (lambda: Joins.of("a", "k").outputs(), "select"),
        (lambda: Joins.of("a", "k").machine({StreamId("a"): Fields("k")}, max_rows=0), "max_rows"),
        (lambda: Joins.of("a", "k").machine({StreamId("a"): Fields("j")}), "a has no field 'k'; there are: j"),
    ],
)
def test_a_join_that_makes_no_sense_is_refused_when_it_is_declared(build: Any, says: str) -> None:
    with pytest.raises(WindowError, match=says):
        build()


def test_problems_name_input_and_field() -> None:
    joins = Joins.of("orders", "buyer").join("clicks", ("user",)).select("user, price, orders:url, prize, nothing")
    assert joins.problems(READ) == [
        "join: orders has no field 'buyer'; did you mean 'user'?",
        "join: several inputs have a field 'user'; which is meant: orders:user or clicks:user?",
        "join: select names 'orders:url', which no input has; did you mean 'orders:user'?",
        "join: select names 'prize', which no input has; did you mean 'price'?",
        "join: select names 'nothing', which no input has; there are: id, orders:user, price, clicks:user, url",
    ]
    joins = Joins.of("orders", "user").join("views", "user")
    assert joins.problems(READ) == [
        "join: it does not read views, which is joined; call a grouping on it",
        "join: it reads clicks, which is joined to nothing",
    ]
    assert Joins.of("orders", "user").join("clicks", "user").problems(READ) == []
