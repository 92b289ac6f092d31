"""JoinBolt in topologies that run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, Fields, JoinBolt, LocalCluster, Spout, TopologyBuilder, TopologyError, Tuple
from aiostorm.testing import FeederSpout, Recorder, complete_topology
from aiostorm.windows import Counts, LatePolicy, Punctuated, Session, Sliding, Tumbling, WindowError

MINUTE = 60_000
LONG = Config(message_timeout_s=600)


class Source(Spout):
    def next_tuple(self) -> None:
        raise AssertionError("replaced")


class Orders(Source):
    outputs = Fields("id", "user", "at")


class Clicks(Source):
    outputs = Fields("user", "url", "at")


class Failing(BasicBolt):
    """Fails what it is given the first time."""

    def prepare(self, context: Any) -> None:
        self.failed = set[Any]()

    def execute(self, tup: Tuple, collector: Any) -> None:
        if tup.values not in self.failed:
            self.failed.add(tup.values)
            raise ValueError("not yet")


class Slow(BasicBolt):
    async def execute(self, tup: Tuple, collector: Any) -> None:
        await asyncio.sleep(0.01)


ORDERS = [(1, "ann", 1_000), (2, "bob", 2_000), (3, "ann", 61_000), (4, None, 62_000), (5, "cyd", 130_000)]
CLICKS = [
    ("ann", "/a", 500),
    ("ann", "/b", 59_999),
    ("ann", "/c", 60_000),
    ("dan", "/d", 119_000),
    (None, "/e", 125_000),
]


def build(bolt: JoinBolt, tasks: int = 1, then: Callable[[TopologyBuilder], Any] = lambda builder: None) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_spout("clicks", Clicks)
    builder.set_bolt("join", bolt, tasks).fields_grouping("orders", "user").fields_grouping("clicks", "user")
    then(builder)
    return builder.create_topology(config=LONG)


async def run(topology: Any, **sources: list[Any]) -> Any:
    return await complete_topology(topology, {"orders": ORDERS, "clicks": CLICKS, **sources})


async def test_two_spouts_joined_by_minute() -> None:
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").join("clicks", "user").select("id, url")
    done = await run(build(bolt))
    assert done["join"] == [(1, "/a"), (1, "/b"), (3, "/c")]
    assert (done.acked, done.failed) == (10, 0)


@pytest.mark.parametrize("tasks", [1, 3])
async def test_rows_without_a_partner(tasks: int) -> None:
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").full_join("clicks", "user").select("id, url")
    done = await run(build(bolt, tasks))
    expected = [(1, "/a"), (1, "/b"), (2, None), (3, "/c"), (4, None), (None, "/d"), (5, None), (None, "/e")]
    assert sorted(done["join"], key=repr) == sorted(expected, key=repr)
    assert done.acked == 10
    if tasks == 1:
        assert done["join"] == expected


@pytest.mark.parametrize("seed", range(8))
async def test_any_streams_in_any_windows(seed: int) -> None:
    """Against all pairs, looked at one by one; equal numbers of different types are one key, and have one task."""
    rng = random.Random(seed)
    size, kind = rng.choice((10, 30)), rng.choice(("join", "left_join", "right_join", "full_join"))
    slide = rng.choice((size, size // 2, 3))
    users = ("ann", "bob", None, 1, 1.0, True, 2)
    orders = [(number, rng.choice(users), rng.randrange(100)) for number in range(20)]
    clicks = [(rng.choice(users), f"/{number}", rng.randrange(100)) for number in range(20)]
    bolt = getattr(JoinBolt("orders", "user", Sliding(size, slide), timestamp="at", lag_ms=100), kind)("clicks", "user")
    done = await run(build(bolt.select("id, url"), rng.choice((1, 3))), orders=orders, clicks=clicks)
    expected: list[tuple[Any, Any]] = []
    for start in range(-size // slide * slide, 101, slide):
        mine = [(number, user) for number, user, at in orders if start <= at < start + size]
        theirs = [(user, url) for user, url, at in clicks if start <= at < start + size]
        pairs = [(a, b) for a in mine for b in theirs if a[1] is not None and a[1] == b[0]]
        expected += [(a[0], b[1]) for a, b in pairs]
        if kind in ("left_join", "full_join"):
            expected += [(a[0], None) for a in mine if a not in [pair[0] for pair in pairs]]
        if kind in ("right_join", "full_join"):
            expected += [(None, b[1]) for b in theirs if b not in [pair[1] for pair in pairs]]
    assert sorted(done["join"], key=repr) == sorted(expected, key=repr)
    assert (done.acked, done.failed) == (40, 0)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", range(6))
async def test_sessions_of_a_key_are_joined(seed: int, tasks: int) -> None:
    """Rows of a key that are no more than the gap apart, whichever input they are of, are one session."""
    rng = random.Random(seed)
    gap, kind = rng.choice((3, 10)), rng.choice(("join", "left_join", "right_join", "full_join"))
    users = ("ann", "bob", 1, 1.0, True, 2)
    orders = [(number, rng.choice(users), rng.randrange(100)) for number in range(20)]
    clicks = [(rng.choice(users), f"/{number}", rng.randrange(100)) for number in range(20)]
    bolt = getattr(JoinBolt("orders", "user", Session(gap), timestamp="at", lag_ms=100), kind)("clicks", "user")
    done = await run(build(bolt.select("id, url"), tasks), orders=orders, clicks=clicks)
    expected: list[tuple[Any, Any]] = []
    for key in {user for _, user, _ in orders} | {user for user, _, _ in clicks}:
        events = sorted([at for _, user, at in orders if user == key] + [at for user, _, at in clicks if user == key])
        sessions: list[list[int]] = []
        for at in events:
            if sessions and at <= sessions[-1][-1] + gap:
                sessions[-1].append(at)
            else:
                sessions.append([at])
        for session in sessions:
            mine = [number for number, user, at in orders if user == key and session[0] <= at <= session[-1]]
            theirs = [url for user, url, at in clicks if user == key and session[0] <= at <= session[-1]]
            expected += [(number, url) for number in mine for url in theirs]
            if kind in ("left_join", "full_join") and not theirs:
                expected += [(number, None) for number in mine]
            if kind in ("right_join", "full_join") and not mine:
                expected += [(None, url) for url in theirs]
    assert sorted(done["join"], key=repr) == sorted(expected, key=repr)
    assert (done.acked, done.failed) == (40, 0)


async def test_sessions_include_rows_with_keys_that_equal_no_other() -> None:
    bolt = JoinBolt("orders", "user", Session(MINUTE), timestamp="at").full_join("clicks", "user").select("id, url")
    orders = [(1, None, 1_000), (2, float("nan"), 2_000), (3, "ann", 3_000)]
    clicks = [(None, "/a", 1_000), ("ann", "/b", 63_000), (float("nan"), "/c", 500_000)]
    done = await run(build(bolt), orders=orders, clicks=clicks)
    assert sorted(done["join"], key=repr) == [(1, None), (2, None), (3, "/b"), (None, "/a"), (None, "/c")]
    assert (done.acked, done.failed) == (6, 0)


@pytest.mark.parametrize("key", [None, float("nan")])
async def test_rows_with_one_key_that_equals_no_other_have_one_session(key: Any) -> None:
    bolt = JoinBolt("orders", "user", Session(MINUTE), timestamp="at", max_joined=1).left_join("clicks", "user")
    orders = [(1, key, 1_000), (2, key, 2_000), (3, "ann", 3_000)]
    done = await run(build(bolt.select("id")), orders=orders, clicks=[])
    assert done["join"] == [(3,)]
    assert set(done.failures["orders"]) == {0, 1}, "two rows in one window, which may give one"


async def test_all_fields_and_a_join_of_what_was_joined() -> None:
    """Without a select the fields are those of the inputs; those behind see them when the topology is built."""
    first = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").join("clicks", "user")
    second = JoinBolt("join", "orders:user", Tumbling(MINUTE), timestamp=lambda tup: tup[tup.fields[-1]])
    second.join("orders", "user")

    def then(builder: TopologyBuilder) -> None:
        builder.set_bolt("again", second).global_grouping("join").global_grouping("orders")

    topology = build(first, then=then)
    assert topology.components["join"].outputs["default"].fields == Fields(
        "id", "orders:user", "orders:at", "clicks:user", "url", "clicks:at"
    )
    assert topology.components["again"].outputs["default"].fields == Fields(
        "join:id", "join:orders:user", "join:orders:at", "clicks:user", "url", "clicks:at", "orders:id", "user", "at"
    )
    done = await run(topology)
    assert len(done["join"]) == 3
    assert len(done["again"]) == 3


async def test_sliding_windows_and_a_named_stream() -> None:
    bolt = JoinBolt("orders", "user", Sliding(MINUTE, MINUTE // 2), timestamp="at", stream="pairs")
    done = await run(build(bolt.join("clicks", "user").select("id, url as page")))
    assert done.stream("join", "pairs") == [(1, "/a"), (1, "/a"), (1, "/b"), (3, "/b"), (3, "/c"), (3, "/c")]


async def test_windows_by_count() -> None:
    bolt = JoinBolt("orders", "user", Counts(10)).join("clicks", "user").select("id, url")
    done = await run(build(bolt))
    assert sorted(done["join"]) == [(number, url) for number in (1, 3) for url in ("/a", "/b", "/c")]


async def test_a_row_is_a_child_of_the_tuples_that_it_is_made_of() -> None:
    """What fails behind the join comes again from both spouts; with `anchored=False` it is not reported."""

    def then(builder: TopologyBuilder) -> None:
        builder.set_bolt("failing", Failing).global_grouping("join")

    for anchored in (True, False):
        bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at", anchored=anchored)
        done = await run(build(bolt.join("clicks", "user").select("id, url"), then=then))
        assert set(done.failures["orders"]) == ({0, 2} if anchored else set())
        assert set(done.failures["clicks"]) == ({0, 1, 2} if anchored else set())


async def test_a_tuple_that_cannot_be_joined_fails_alone() -> None:
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").join("clicks", "user").select("id, url")
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_spout("clicks", Clicks)
    builder.set_bolt("join", bolt).global_grouping("orders").global_grouping("clicks")
    topology = builder.create_topology(config=LONG)
    done = await run(topology, orders=[*ORDERS[:2], (9, ["ann"], 1_500), *ORDERS[2:]])
    assert done["join"] == [(1, "/a"), (1, "/b"), (3, "/c")]
    assert set(done.failures["orders"]) == {2}
    assert "orders:user: a list has no hash" in str(done.errors[0].error)


async def test_more_rows_than_a_window_may_give() -> None:
    """All of its tuples fail and none of its rows is given; other windows are as they were."""
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at", max_joined=1)
    done = await run(build(bolt.join("clicks", "user").select("id, url")))
    assert done["join"] == [(3, "/c")]
    assert set(done.failures["orders"]) == {0, 1}
    assert set(done.failures["clicks"]) == {0, 1}
    assert "more than 1 rows in one window" in str(done.errors[0].error)


async def test_many_rows_are_given_as_those_behind_take_them() -> None:
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").join("clicks", "user").select("id, url")
    sources = {
        "orders": [(number, "ann", 5) for number in range(60)],
        "clicks": [("ann", str(n), 5) for n in range(60)],
    }
    done = await run(
        build(bolt, then=lambda builder: builder.set_bolt("slow", Slow).global_grouping("join")), **sources
    )
    assert done["join"] == [(number, str(url)) for number in range(60) for url in range(60)]
    assert done.elapsed_s > 35
    assert (done.acked, done.metrics["slow"].acked) == (120, 3_600)


@pytest.mark.parametrize(("users", "waits"), [(31, 0), (32, 1), (45, 2)])
async def test_the_bolt_waits_for_its_receivers_after_each_thousand_rows(users: int, waits: int) -> None:
    waited = list[int]()

    class Watched(JoinBolt):
        """How many rows it had emitted at each wait."""

        def prepare(self, context: Any, collector: Any) -> None:
            emitted, drain = 0, collector.drain

            class Counting:
                def emit(self, *arguments: Any) -> None:
                    nonlocal emitted
                    emitted += 1
                    collector.emit(*arguments)

                async def drain(self) -> None:
                    waited.append(emitted)
                    await drain()

            super().prepare(context, Counting())  # type: ignore[arg-type]

    bolt = Watched("orders", "user", Tumbling(MINUTE), timestamp="at").join("clicks", "user").select("id, url")
    orders = [(number, "ann", 5) for number in range(users)]
    clicks = [("ann", str(number), 5) for number in range(users)]
    done = await run(build(bolt), orders=orders, clicks=clicks)
    assert len(done["join"]) == users * users
    assert waited == [1000 * (n + 1) for n in range(waits)]


async def test_late_tuples_go_to_their_stream_and_are_acked() -> None:
    bolt = JoinBolt(
        "orders",
        "user",
        Tumbling(MINUTE),
        timestamp="at",
        late=LatePolicy.STREAM,
        generator=lambda: Punctuated(lambda _: True),
    )
    orders, clicks, late = FeederSpout(Orders.outputs), FeederSpout(Clicks.outputs), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("orders", orders)
    builder.set_spout("clicks", clicks)
    builder.set_bolt("join", bolt.join("clicks", "user").select("id, url")).global_grouping("orders").global_grouping(
        "clicks"
    )
    builder.set_bolt("late", late).global_grouping("join", stream="late")
    assert builder.create_topology(config=LONG).components["join"].outputs["default"].fields == Fields("id", "url")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology(config=LONG))
        await orders.feed((1, "ann", 1_000))
        await clicks.feed(("ann", "/a", 2_000))
        await running.wait_still()
        await orders.feed((2, "ann", MINUTE))
        await clicks.feed(("bob", "/b", MINUTE))
        await running.wait_still()
        await clicks.feed(("ann", "/c", 5))
        await running.wait_still()
        assert late.values == [(("ann", "/c", 5), 5, "clicks", "default")]
        assert (len(orders.acked), len(clicks.acked)) == (1, 2)


def problems(bolt: JoinBolt) -> list[str]:
    with pytest.raises(TopologyError) as raised:
        build(bolt)
    return [problem.removeprefix("bolt 'join': ") for problem in raised.value.problems]


def test_errors_are_reported_when_the_topology_is_built() -> None:
    bolt = (
        JoinBolt("orders", "buyer", Tumbling(MINUTE), timestamp="time").join("clicks", "user").select("user, at as at")
    )
    assert problems(bolt) == [
        "timestamp: orders has no field 'time'; there are: id, user, at",
        "timestamp: clicks has no field 'time'; there are: user, url, at",
        "join: orders has no field 'buyer'; did you mean 'user'?",
        "join: several inputs have a field 'user'; which is meant: orders:user or clicks:user?",
        "join: several inputs have a field 'at'; which is meant: orders:at or clicks:at?",
    ]
    bolt = JoinBolt("orders", "user", Session(MINUTE), timestamp="at")
    (problem,) = problems(bolt.join("clicks", "url", prior_key="id"))
    assert "join: sessions are of one key, but its inputs are joined by several" in problem
    assert problems(JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").join("views", "user")) == [
        "join: it does not read views, which is joined; call a grouping on it",
        "join: it reads clicks, which is joined to nothing",
    ]
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at", max_joined=0).join("clicks", "user")
    assert problems(bolt) == ["max_joined is 0; give 1 or more"]
    (problem,) = problems(JoinBolt("orders", "user", timestamp="at").join("clicks", "user"))
    assert "no windows" in problem
    with pytest.raises(WindowError, match="select"):
        JoinBolt("orders", "user", outputs=Fields("a"))


def test_a_join_that_reads_itself_says_what_it_emits() -> None:
    bolt = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at").join("join", "user")
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_bolt("join", bolt).global_grouping("orders").global_grouping("join")
    with pytest.raises(TopologyError, match="its outputs depend on its inputs, and these depend on it"):
        builder.create_topology(config=LONG)
