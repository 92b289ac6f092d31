"""Manifests: read as written; damaged, half-written, newer and foreign ones are refused by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.state import (
    BlobRef,
    ComponentPlan,
    DamagedError,
    ForeignError,
    Manifest,
    TaskBlobs,
    pack_manifest,
    read_manifest,
)
from aiostorm.state.manifest import manifest_number, pack_framed


def ref(name: str) -> BlobRef:
    return BlobRef(name, 100, 3, 12345)


PLAN = (ComponentPlan("numbers", (1,)), ComponentPlan("count", (2, 3), 256, ("word",), 1))
FULL = Manifest(
    7,
    "words",
    PLAN,
    (TaskBlobs(2, (ref("t2-5-f-0"), ref("t2-5-f-1"), ref("t2-6-d-0"), ref("t2-7-d-0")), {0: 3}),),
    savepoint=True,
    taken_s=1.5,
)

TASKS = st.sampled_from([2, 3])
MANIFESTS = st.builds(
    Manifest,
    st.integers(10, 10**17),
    st.text(min_size=1, max_size=5),
    st.just(PLAN),
    st.lists(TASKS, unique=True).map(lambda tasks: tuple(TaskBlobs(task, (ref(f"t{task}-9-f-0"),)) for task in tasks)),
    st.booleans(),
    st.floats(0, 2e9),
)


@given(manifest=MANIFESTS)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert read_manifest(manifest.name, pack_manifest(manifest), manifest.topology) == manifest


def test_what_a_manifest_knows() -> None:
    assert FULL.name == "m-7"
    assert (manifest_number("m-7"), manifest_number("m-07"), manifest_number("m-"), manifest_number("x-7")) == (
        7,
        None,
        None,
        None,
    )
    assert FULL.blob_names == {"t2-5-f-0", "t2-5-f-1", "t2-6-d-0", "t2-7-d-0"}
    assert FULL.component("count") == PLAN[1]
    assert FULL.component("other") is None
    assert FULL.of_task(3) == TaskBlobs(3, ())


def test_every_wrong_bit_is_found() -> None:
    packed = pack_manifest(FULL)
    for bit in range(8 * len(packed)):
        data = bytearray(packed)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedError, match="m-7"):
            read_manifest("m-7", bytes(data), "words")


def test_half_of_one_is_found() -> None:
    packed = pack_manifest(FULL)
    for end in range(len(packed)):
        with pytest.raises(DamagedError, match="m-7"):
            read_manifest("m-7", packed[:end], "words")
    with pytest.raises(DamagedError, match="m-7: it is missing"):
        read_manifest("m-7", None, "words")
    with pytest.raises(DamagedError):
        read_manifest("m-7", packed + b" ", "words")


def test_newer_and_foreign_ones_are_refused() -> None:
    with pytest.raises(ForeignError, match="m-7 has format 2, and this aiostorm reads format 1: use a newer one"):
        read_manifest("m-7", pack_framed("aiostorm-manifest", 2, {}), "words")
    with pytest.raises(ForeignError, match="m-7 is a snapshot of topology 'words', not of 'other'"):
        read_manifest("m-7", pack_manifest(FULL), "other")
    with pytest.raises(ForeignError, match="m-8 is the manifest m-7 under another name"):
        read_manifest("m-8", pack_manifest(FULL), "words")
    with pytest.raises(DamagedError, match="instead of 'aiostorm-manifest'"):
        read_manifest("m-7", pack_framed("aiostorm-state", 1, {}), "words")


@pytest.mark.parametrize("content", [[], {}, 5, {"plan": 5}, {"plan": [], "tasks": [[1, [["t1-1-d-0", 1, 1, 1]], []]]}])
def test_another_content_is_damage(content: Any) -> None:
    with pytest.raises(DamagedError, match="m-7: the content is not a manifest"):
        read_manifest("m-7", pack_framed("aiostorm-manifest", 1, content), "words")


@pytest.mark.parametrize(
    "names",
    [
        ["t2-5-d-0"],
        ["t2-5-f-1"],
        ["t2-5-f-0", "t2-5-f-2"],
        ["t2-5-f-0", "t2-6-d-1"],
        ["t2-5-f-0", "t2-5-d-0"],
        ["t2-5-f-0", "t2-4-d-0"],
        ["t2-5-f-0", "t2-6-f-0"],
        ["t3-5-f-0"],
        ["t02-5-f-0"],
        ["m-5"],
    ],
)
def test_blobs_that_do_not_follow_one_another_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="task 2"):
        TaskBlobs(2, tuple(map(ref, names)))


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 0},
        {"number": 6},
        {"topology": ""},
        {"tasks": (TaskBlobs(2, ()), TaskBlobs(2, ()))},
        {"tasks": (TaskBlobs(4, ()),)},
        {"plan": (*PLAN, ComponentPlan("other", (3,)))},
    ],
)
def test_a_manifest_that_contradicts_itself_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"task|snapshot"):
        dataclasses.replace(FULL, **changes)


def test_a_plan_that_contradicts_itself_cannot_be_made() -> None:
    for tasks, ranges in (((), 0), ((1, 1), 0), ((1, 2, 3), 2)):
        with pytest.raises(ValueError, match="tasks"):
            ComponentPlan("count", tasks, ranges)
