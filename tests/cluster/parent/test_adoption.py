"""What a parent decides about workers of an earlier one: a table, and who was given up whatever comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import LocalCluster
from aiostorm.cluster.messages import FAILED_IMPORT, ImportTopology, Standing
from aiostorm.cluster.parent.adoption import Fit, Survivors, fit
from aiostorm.cluster.parent.assignment import digest_of


@pytest.mark.parametrize(
    ("standing", "at_least_once", "exactly_once"),
    [
        (None, Fit.NEW, Fit.NEW),
        (Standing(1), Fit.NEW, Fit.NEW),
        (Standing(1, FAILED_IMPORT), "it could not import", "it could not import"),
        (Standing(1, "other", has_tasks=True, works=True), "it runs another topology", "it runs another topology"),
        (Standing(1, "same"), Fit.IMPORTED, Fit.IMPORTED),
        (Standing(1, "same", has_tasks=True), "it was starting or ending its tasks", Fit.IMPORTED),
        (Standing(1, "same", has_tasks=True, works=True), Fit.ADOPTED, Fit.IMPORTED),
    ],
)
def test_how_a_process_is_used(standing: Standing | None, at_least_once: Fit | str, exactly_once: Fit | str) -> None:
    for expected, once in ((at_least_once, False), (exactly_once, True)):
        found = fit(standing, "same", exactly_once=once)
        assert found == expected if isinstance(expected, Fit) else str(found).startswith(expected)


ORDER = ImportTopology("n", "m:t", ("a",), {"workers": 2, "max_spout_pending": 5}, {1: "w1", 2: "w2"}, "shape", "code")


def test_a_digest_does_not_depend_on_the_order_of_mappings_nor_on_settings_that_may_change() -> None:
    same = ImportTopology(
        "n", "m:t", ("a",), {"max_spout_pending": 9, "workers": 2}, {2: "w2", 1: "w1"}, "shape", "code"
    )
    assert digest_of(same) == digest_of(ORDER)


@pytest.mark.parametrize(
    "other",
    [
        ImportTopology("x", *("m:t", ("a",), ORDER.config, ORDER.placement, "shape", "code")),
        ImportTopology("n", "m:u", ("a",), ORDER.config, ORDER.placement, "shape", "code"),
        ImportTopology("n", "m:t", ("a", ""), ORDER.config, ORDER.placement, "shape", "code"),
        ImportTopology("n", "m:t", ("a",), {**ORDER.config, "workers": 3}, ORDER.placement, "shape", "code"),
        ImportTopology("n", "m:t", ("a",), {**ORDER.config, "mine": {"b": {1, 2}}}, ORDER.placement, "shape", "code"),
        ImportTopology("n", "m:t", ("a",), ORDER.config, {1: "w2", 2: "w1"}, "shape", "code"),
        ImportTopology("n", "m:t", ("a",), ORDER.config, ORDER.placement, "other", "code"),
        ImportTopology("n", "m:t", ("a",), ORDER.config, ORDER.placement, "shape", "other"),
    ],
)
def test_a_digest_differs_for_anything_else(other: ImportTopology) -> None:
    assert digest_of(other) != digest_of(ORDER)


@given(
    notified=st.dictionaries(st.sampled_from("abcd"), st.sets(st.sampled_from("abcd"))),
    order=st.permutations("abcd"),
)
def test_a_process_of_whose_end_an_adopted_worker_was_notified_is_not_kept_whichever_joins_first(
    notified: dict[str, set[str]], order: list[str]
) -> None:
    """Each knows all others, as incarnation 1; and some of them have ended, as it was notified."""
    survivors, kept = Survivors(), set[str]()
    for name in order:
        if survivors.accuser(name, 1):
            continue
        standing = Standing(
            7, "d", True, True, "", dict.fromkeys(set("abcd") - {name}, 1), tuple(notified.get(name, set()) - {name})
        )
        for other in survivors.adopt(name, 1, standing):
            kept.discard(other)
            survivors.ended(other)
        kept.add(name)
    assert not any(other in notified.get(name, ()) for name in kept for other in kept - {name})


def test_the_ends_that_no_parent_has_noticed_are_known_once() -> None:
    survivors = Survivors()
    assert not survivors.adopt("a", 1, Standing(7, "d", True, True, "", {"b": 20, "c": 30}))
    assert not survivors.adopt("b", 21, Standing(7, "d", True, True, "", {"a": 1, "c": 31}, ("c",)))
    assert survivors.accuser("c", 31) == "b"
    assert survivors.accuser("c", 30) == "", "of this one it was not notified"
    assert survivors.ended("c") == {30, 31}
    assert survivors.ended("c") == set()
    assert survivors.ended("b") == {20}
    assert survivors.accuser("c", 31) == "", "b has ended"


@pytest.mark.parametrize(
    ("names", "workers", "text"),
    [
        (-1, 0, "a number of workers is 0 or more"),
        (["a", "a"], 0, "two remote workers have the same name: a, a"),
        (["a b"], 0, "a worker's name is 1 to 64 of"),
        (["parent"], 0, "not 'parent'"),
        (["driver-1"], 0, "does not begin with 'driver-'"),
        (["worker-1"], 1, "'worker-1' is the name of a local worker"),
    ],
)
def test_names_of_remote_workers_are_checked(names: int | list[str], workers: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LocalCluster(workers=workers, remote_workers=names)


def test_remote_workers_are_counted_or_named() -> None:
    assert LocalCluster(remote_workers=2).remote_names == ["remote-1", "remote-2"]
    assert LocalCluster(remote_workers=("worker-1", "x.y")).remote_names == ["worker-1", "x.y"]
