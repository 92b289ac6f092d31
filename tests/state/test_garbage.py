"""Garbage: what is removed, and what never is, whatever comes late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.state import ComponentPlan, Manifest, TaskBlobs
from aiostorm.state.blobs import BlobName, BlobRef
from aiostorm.state.garbage import garbage, highest_number, kept_manifests, stored_bytes

PLAN = (ComponentPlan("count", (1, 2)),)


def ref(task: int, number: int, *, full: bool = True, part: int = 0, size: int = 10) -> BlobRef:
    return BlobRef(str(BlobName(task, number, full, part)), size, 1, 0)


def manifest(number: int, *blobs: BlobRef, savepoint: bool = False) -> Manifest:
    tasks = [TaskBlobs(task, tuple(b for b in blobs if b.name.startswith(f"t{task}-"))) for task in (1, 2)]
    return Manifest(number, "words", PLAN, tuple(part for part in tasks if part.blobs), savepoint=savepoint)


def test_the_blobs_of_a_failed_snapshot_are_removed_but_for_one() -> None:
    counts = {3: manifest(3, ref(1, 3))}
    names = ["m-3", "owner", "t1-3-f-0", "t1-4-f-0", "t1-4-f-1", "t2-4-d-0"]
    assert garbage(names, counts, 3, 4) == ["t1-4-f-0", "t1-4-f-1"], "4 is not used again"
    later = [*names, "t1-5-f-0"]
    assert garbage(later, counts, 3, 4) == ["t1-4-f-0", "t1-4-f-1", "t2-4-d-0"], "5 is being written"
    assert garbage(names, counts, 3, 3) == [], "4 is being written"


def test_what_a_manifest_names_or_may_name_stays() -> None:
    delta = manifest(4, ref(1, 2), ref(1, 4, full=False))
    names = ["m-4", "m-5", "t1-2-f-0", "t1-4-d-0", "t1-5-d-0", "t2-3-f-0", "t1-6-f-0"]
    assert garbage(names, {4: delta}, 4, 6) == ["t2-3-f-0"], "m-5 is unknown or cannot be read"
    assert garbage([*names, "m-7"], {4: delta}, 6, 6) == ["t1-5-d-0", "t1-6-f-0", "t2-3-f-0"]


def test_what_several_name_counts_once() -> None:
    full = ref(1, 1, size=100)
    two = manifest(2, full, ref(1, 2, full=False, size=5))
    assert stored_bytes([]) == 0
    assert stored_bytes([manifest(1, full), two]) == 105
    assert stored_bytes([two, manifest(3, ref(1, 3, size=7))]) == 112


def test_the_newest_and_savepoints_are_kept() -> None:
    all_of_them = {number: manifest(number, savepoint=number == 2) for number in range(1, 7)}
    assert sorted(kept_manifests(all_of_them, 3)) == [2, 4, 5, 6]
    assert sorted(kept_manifests(all_of_them, 1)) == [2, 6]
    assert kept_manifests({}, 1) == {}


numbers = st.integers(1, 9)
blobs = st.builds(BlobName, st.integers(1, 2), numbers, st.booleans(), st.integers(0, 2)).map(str)


@given(
    names=st.sets(st.one_of(blobs, numbers.map("m-{}".format), st.just("owner"))),
    known=st.dictionaries(numbers, st.lists(st.tuples(st.integers(1, 2), numbers), max_size=3), max_size=4),
    keep=st.integers(1, 3),
    until=st.integers(0, 10),
)
def test_nothing_that_is_needed_or_being_written_is_removed(
    names: set[str], known: dict[int, list[tuple[int, int]]], keep: int, until: int
) -> None:
    made: dict[int, Manifest] = {}
    for number, of in known.items():
        first = {task: at for task, at in of if at <= number}
        made[number] = manifest(number, *(ref(task, at) for task, at in first.items()))
        names |= {f"m-{number}", *made[number].blob_names}
    oldest = min(sorted(made)[-keep:], default=0)
    removed = garbage(names, made, oldest, until)
    left = names - set(removed)
    assert set(removed) <= names
    assert all(found.blob_names <= left for found in made.values())
    assert highest_number(left) == highest_number(names), "a number would be used again"
    for name in removed:
        blob = BlobName.parse(name)
        assert blob is not None
        assert blob.number <= until
        assert blob.number < oldest or blob.number in made or f"m-{blob.number}" not in names
    assert garbage(left, made, oldest, until) == [], "a second time finds nothing"
