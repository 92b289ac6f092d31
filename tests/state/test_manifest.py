"""Manifests: read as written; damaged, half-written, newer and foreign ones are refused by name."""

from __future__ import annotations

import dataclasses
import json
import zlib
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


def test_a_component_has_no_state_unless_it_says_so() -> None:
    plan = ComponentPlan("split", (1,))
    assert (plan.n_ranges, plan.key, plan.version) == (0, (), 0)
    first = Manifest(1, "words", (plan,))
    assert read_manifest("m-1", pack_manifest(first)) == first
    assert (first.tasks, first.savepoint, first.taken_s) == ((), False, 0.0)


def content(**changes: Any) -> dict[str, Any]:
    """What a manifest says, with other entries."""
    data = pack_manifest(FULL)
    found: dict[str, Any] = json.loads(data.partition(b"\n")[2])
    return found | changes


def test_its_json_is_that_of_format_1() -> None:
    blobs = [[f"t2-{blob}", 100, 3, 12345] for blob in ("5-f-0", "5-f-1", "6-d-0", "7-d-0")]
    assert content() == {
        "number": 7,
        "topology": "words",
        "savepoint": True,
        "taken_s": 1.5,
        "plan": [["numbers", [1], 0, [], 0], ["count", [2, 3], 256, ["word"], 1]],
        "tasks": [[2, blobs, [[0, 3]]]],
    }
    assert read_manifest("m-7", pack_framed("aiostorm-manifest", 1, content())) == FULL
    assert read_manifest("m-7", pack_framed("aiostorm-manifest", 1, content(taken_s=2))).taken_s == 2.0


@pytest.mark.parametrize(
    "changes",
    [
        {"number": -7},
        {"number": True},
        {"number": 7.0},
        {"number": "7"},
        {"topology": 5},
        {"topology": None},
        {"savepoint": 1},
        {"savepoint": None},
        {"taken_s": "1.5"},
        {"taken_s": True},
        {"taken_s": None},
        {"plan": [["numbers", [1], 0, []]]},
        {"plan": [[5, [1], 0, [], 0]]},
        {"plan": [["numbers", ["1"], 0, [], 0]]},
        {"plan": [["numbers", [-1], 0, [], 0]]},
        {"plan": [["numbers", [1], -1, [], 0]]},
        {"plan": [["numbers", [1], 0, [5], 0]]},
        {"plan": [["numbers", [1], 0, [], None]]},
        {"tasks": [["2", [], []]]},
        {"tasks": [[2, [[5, 100, 3, 1]], []]]},
        {"tasks": [[2, [["t2-5-f-0", -1, 3, 1]], []]]},
        {"tasks": [[2, [["t2-5-f-0", 100, 3.0, 1]], []]]},
        {"tasks": [[2, [["t2-5-f-0", 100, 3, None]], []]]},
        {"tasks": [[2, [], [[0, -3]]]]},
        {"tasks": [[2, [], [["0", 3]]]]},
        {"tasks": None},
    ],
    ids=str,
)
def test_entries_of_another_type_are_damage(changes: dict[str, Any]) -> None:
    data = pack_framed("aiostorm-manifest", 1, content(**changes))
    with pytest.raises(DamagedError, match="m-7: the content is not a manifest"):
        read_manifest("m-7", data)


@pytest.mark.parametrize("missing", ["number", "topology", "savepoint", "taken_s", "plan", "tasks"])
def test_an_entry_that_is_missing_is_damage(missing: str) -> None:
    entries = content()
    del entries[missing]
    with pytest.raises(DamagedError, match="m-7: the content is not a manifest"):
        read_manifest("m-7", pack_framed("aiostorm-manifest", 1, entries))


@pytest.mark.parametrize("start", ["aiostorm-manifest 1", "aiostorm-manifest 1 3 4", "aiostorm-manifest 1 2", ""])
def test_a_first_line_of_other_words_is_damage(start: str) -> None:
    line = f"{start} {zlib.crc32(b'{} ', zlib.crc32(start.encode())):08x}\n"
    with pytest.raises(DamagedError, match="m-7: it begins with"):
        read_manifest("m-7", line.encode() + b"{} ")


def test_what_is_not_json_is_damage() -> None:
    start = "aiostorm-manifest 1 2"
    line = f"{start} {zlib.crc32(b'{x', zlib.crc32(start.encode())):08x}\n"
    with pytest.raises(DamagedError, match="m-7: the content is not JSON"):
        read_manifest("m-7", line.encode() + b"{x")


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ([], (5, 5)),
        (["t2-5-f-0"], (5, 5)),
        (["t2-5-f-0", "t2-5-f-1", "t2-5-f-2"], (5, 5)),
        (["t2-5-f-0", "t2-6-d-0", "t2-6-d-1", "t2-9-d-0"], (9, 12)),
    ],
)
def test_a_full_snapshot_and_its_deltas_follow_one_another(names: list[str], numbers: tuple[int, int]) -> None:
    for number in numbers:
        made = dataclasses.replace(FULL, number=number, tasks=(TaskBlobs(2, tuple(map(ref, names))),))
        assert made.blob_names == set(names)
    if names and numbers[0] > 5:
        with pytest.raises(ValueError, match="t2-9-d-0 is newer than snapshot 8"):
            dataclasses.replace(made, number=8)


def test_as_many_ranges_as_tasks_are_enough() -> None:
    assert ComponentPlan("count", (1, 2, 3), 3).n_ranges == 3
