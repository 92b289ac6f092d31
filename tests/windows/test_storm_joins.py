"""Scenarios of Storm's TestJoinBolt, with its users, orders, stores and cities."""

from __future__ import annotations

from typing import Any, Final

import pytest

from aiostorm.topology import Fields, StreamId
from aiostorm.windows import Joins

from .scenarios import scenario

Rows = list[tuple[Any, ...]]

USERS: Final[Rows] = [
    (1, "roshan", "san jose"),
    (2, "harsha", "santa clara"),
    (3, "siva", "dublin"),
    (4, "hugo", "san mateo"),
    (5, "suresh", "sunnyvale"),
    (6, "guru", "palo alto"),
    (7, "arun", "bengaluru"),
    (8, "satish", "mumbai"),
    (9, "mani", "bengaluru"),
    (10, "priyank", "seattle"),
]
ORDERS: Final[Rows] = [
    (11, 2, 21, 7),
    (12, 2, 22, 3),
    (13, 3, 23, 4),
    (14, 4, 24, 5),
    (15, 5, 25, 2),
    (16, 6, 26, 7),
    (17, 6, 27, 4),
    (18, 7, 28, 2),
    (19, 8, 29, 9),
]
STORES: Final[Rows] = [
    (1, "store1", "san jose"),
    (2, "store2", "santa clara"),
    (3, "store3", "dublin"),
    (4, "store4", "san mateo"),
    (5, "store5", "bengaluru"),
]
CITIES: Final[Rows] = [
    (1, "san jose", "US"),
    (2, "santa clara", "US"),
    (3, "dublin", "US"),
    (4, "san mateo", "US"),
    (5, "sunnyvale", "US"),
    (6, "palo alto", "US"),
    (7, "bengaluru", "India"),
    (8, "mumbai", "India"),
    (9, "chennai", "India"),
]
TABLES: Final = {"users": USERS, "orders": ORDERS, "stores": STORES, "cities": CITIES}
FIELDS: Final = {
    StreamId("users"): Fields("userId", "name", "city"),
    StreamId("orders"): Fields("orderId", "userId", "itemId", "price"),
    StreamId("stores"): Fields("storeId", "storeName", "city"),
    StreamId("cities"): Fields("cityId", "cityName", "country"),
}
WHICH = "A field that several inputs have is named with its input; Storm takes the first value that is not null"


def joined(joins: Joins) -> Rows:
    read = {one.source: FIELDS[one.source] for one in joins.inputs}
    return list(joins.machine(read).rows([TABLES[str(source)] for source in read]))


def which(joins: Joins) -> list[str]:
    return joins.problems({one.source: FIELDS[one.source] for one in joins.inputs})


@scenario("One input is emitted unchanged", "TestJoinBolt#testTrivial", "9 rows of 9")
def test_one_input() -> None:
    assert joined(Joins.of("orders", "orderId").select("orderId,userId,itemId,price")) == ORDERS


@scenario("Fields inside a mapping: outer.userId", "TestJoinBolt#testNestedKeys", "10 rows of 10")
def test_nested_keys() -> None:
    read = {StreamId("users"): Fields("outer")}
    rows = [({"userId": number, "name": name, "city": city},) for number, name, city in USERS]
    joins = Joins.of("users", "outer.userId").select("outer.name, outer.city")
    assert list(joins.machine(read).rows([rows])) == [(name, city) for _, name, city in USERS]


@scenario(
    "Users and stores joined by city, both cities selected",
    "TestJoinBolt#testProjection_FieldsWithStreamName",
    "6 rows of 5 fields, none null",
)
def test_fields_with_the_name_of_their_input() -> None:
    joins = Joins.of("users", "city").join("stores", "city", "users")
    joins = joins.select("userId,name,storeName,users:city,stores:city")
    rows = joined(joins)
    assert joins.outputs() == Fields("userId", "name", "storeName", "users:city", "stores:city")
    assert rows == [
        (user, name, store, city, city) for user, name, city in USERS for _, store, there in STORES if city == there
    ]
    assert len(rows) == len(STORES) + 1


@scenario(
    "Users joined with their orders",
    "TestJoinBolt#testInnerJoin",
    "9 rows; `userId` is the field of users",
    "9 rows; `userId` alone is refused: write users:userId or orders:userId",
    WHICH,
)
def test_inner_join() -> None:
    joins = Joins.of("users", "userId").join("orders", "userId", "users")
    (problem,) = which(joins.select("userId,name,price"))
    assert problem.endswith("which is meant: users:userId or orders:userId?")
    rows = joined(joins.select("users:userId,name,price"))
    assert rows == [(user, name, price) for user, name, _ in USERS for _, buyer, _, price in ORDERS if buyer == user]
    assert len(rows) == len(ORDERS)


@scenario("Users, left join of their orders", "TestJoinBolt#testLeftJoin", "12 rows")
def test_left_join() -> None:
    rows = joined(Joins.of("users", "userId").left_join("orders", "userId", "users").select("name,price"))
    assert len(rows) == 12
    assert [name for name, price in rows if price is None] == ["roshan", "mani", "priyank"]


@scenario(
    "Orders, left join of users; one order has no user",
    "JoinBolt (code)#doLeftJoin",
    "the order without a user is left out",
    "it is kept, with None",
    "SQL keeps it: a left join keeps every row of the left input",
)
def test_left_join_without_a_key() -> None:
    joins = Joins.of("orders", "userId").left_join("users", "userId", "orders").select("orderId,name")
    read = {one.source: FIELDS[one.source] for one in joins.inputs}
    assert list(joins.machine(read).rows([[(20, None, 30, 1), ORDERS[0]], USERS])) == [(20, None), (11, "harsha")]


@scenario(
    "Right and full outer joins of users and stores",
    "JoinBolt (code)#doJoin",
    "RuntimeException: unsupported join type",
    "6 rows; 10 rows; rows without a partner have None",
    "Both are joins of SQL",
)
def test_right_and_full_join() -> None:
    first, columns = Joins.of("stores", "city"), "name,storeName"
    assert len(joined(first.right_join("users", "city").select(columns))) == len(USERS)
    assert len(joined(Joins.of("users", "city").right_join("stores", "city").select(columns))) == 6
    assert len(joined(first.full_join("users", "city").select(columns))) == 10


@scenario(
    "Users joined with stores in their city, and with the city of the store",
    "TestJoinBolt#testThreeStreamInnerJoin",
    "6 rows; `city` is the field of users",
    "6 rows; `city` alone is refused",
    WHICH,
)
def test_inner_join_of_three() -> None:
    joins = Joins.of("users", "city").join("stores", "city", "users").join("cities", "cityName", "stores")
    assert which(joins.select("name,storeName,city,country"))
    rows = joined(joins.select("name,storeName,users:city,country"))
    assert rows[0] == ("roshan", "store1", "san jose", "US")
    assert len(rows) == 6


@pytest.mark.parametrize(
    ("prior", "unknown"), [("users", ["priyank"]), ("stores", ["suresh", "guru", "satish", "priyank"])]
)
@scenario(
    "Users, left join of stores, left join of cities by users or by stores",
    "TestJoinBolt#testThreeStreamLeftJoin_1, testThreeStreamLeftJoin_2",
    "10 rows by users, 6 by stores: rows without a store are left out",
    "10 rows in both cases; rows without a store have None",
    "SQL keeps rows without a key in a left join",
)
def test_left_join_of_three(prior: str, unknown: list[str]) -> None:
    joins = Joins.of("users", "city").left_join("stores", "city", "users").left_join("cities", "cityName", prior)
    rows = joined(joins.select("name,storeName,users:city,country"))
    assert [row[0] for row in rows] == [name for _, name, _ in USERS]
    assert [row[0] for row in rows if row[3] is None] == unknown


@scenario("Users, join of stores, left join of cities", "TestJoinBolt#testThreeStreamMixedJoin", "6 rows")
def test_mixed_join_of_three() -> None:
    joins = Joins.of("users", "city").join("stores", "city", "users").left_join("cities", "cityName", "users")
    rows = joined(joins.select("name,storeName,users:city,country"))
    assert len(rows) == len(STORES) + 1
    assert all(country is not None for *_, country in rows)
