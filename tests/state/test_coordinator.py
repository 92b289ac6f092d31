"""The coordinator: each rule alone."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.state import (
    Abort,
    Answer,
    BlobRef,
    Closed,
    Commit,
    Coordinator,
    Done,
    Failed,
    Phase,
    Rollback,
    SnapshotSettings,
    Trigger,
    WriteManifest,
)

TASKS = frozenset({1, 2})
BLOB = BlobRef("t1-1-f-0", 10, 1, 0)
SETTINGS = SnapshotSettings(interval_s=1.0, timeout_s=60.0, max_failures=3)


def started(**options: Any) -> Coordinator:
    """A coordinator whose tasks have begun from the start, at time 0."""
    made = Coordinator(TASKS, SETTINGS, **options)
    assert made.on_restored(made.incarnation, None, 0.0) == []
    assert made.phase is Phase.IDLE
    return made


def taken(made: Coordinator, now_s: float) -> int:
    """Take the snapshot that is due, until its manifest has to be written."""
    (trigger,) = made.on_time(now_s)
    assert isinstance(trigger, Trigger)
    save(made, now_s)
    return trigger.number


def save(made: Coordinator, now_s: float) -> None:
    number = made.number
    assert number is not None
    parts = {task: Done(number, task, made.incarnation) for task in TASKS}
    assert made.on_done(parts[1], now_s) == []
    (write,) = made.on_done(parts[2], now_s)
    assert write == WriteManifest(number, parts, write.savepoint)  # type: ignore[union-attr]


def test_a_snapshot_from_trigger_to_commit() -> None:
    made = started(incarnation=7)
    assert made.next_s == 1.0
    assert made.on_time(0.9) == []
    assert made.on_time(1.0) == [Trigger(1, 7)]
    parts = {1: Done(1, 1, 7, blobs=(BLOB,)), 2: Done(1, 2, 7, loop_ms=3.0)}
    assert made.on_done(parts[1], 1.1) == []
    assert made.on_done(Done(1, 1, 7, blobs=(BLOB, BLOB)), 1.1) == [], "the first one counts"
    assert made.on_done(Done(1, 99, 7), 1.1) == [], "a task that saves nothing"
    assert made.on_done(parts[2], 1.2) == [WriteManifest(1, parts, savepoint=False)]
    assert made.on_written(2, 1.3) == [], "another number"
    assert made.on_written(1, 1.3) == [Commit(1, 7, TASKS)]
    assert made.on_written(1, 1.3) == []
    assert made.on_committed(1, 7, [1], 1.4) == []
    assert made.on_time(5.0) == [], "one at a time"
    assert made.on_committed(1, 7, [2], 5.0) == [Trigger(2, 7)], "the next one is due"
    assert made.durable == 1


def test_the_first_snapshot_after_a_restore_comes_early() -> None:
    made = started()
    number = taken(made, 1.0)
    made.on_written(number, 1.1)
    made.on_committed(number, 1, TASKS, 1.1)
    made.postpone(8.0)
    assert isinstance(made.on_worker_lost("its process has ended")[-1], Rollback)
    assert made.on_restored(2, number, 3.0) == [Commit(number, 2, TASKS)]
    assert made.on_committed(number, 2, TASKS, 3.1) == []
    assert made.next_s == 3.2
    assert made.on_time(3.2) == [Trigger(number + 1, 2)]
    assert made.on_time(4.1) == [], "and those after it in the usual interval"


def test_the_interval_is_counted_from_the_trigger_and_the_governor_can_lengthen_it() -> None:
    made = started()
    number = taken(made, 1.0)
    made.on_written(number, 1.5)
    made.on_committed(number, 1, TASKS, 1.5)
    assert made.next_s == 2.0
    made.postpone(4.0)
    made.postpone(3.0)
    assert made.next_s == 4.0
    assert made.on_time(3.9) == []
    assert made.on_request("savepoint", 3.9) == [Trigger(2, 1)], "a request does not wait"


def test_nothing_is_committed_before_the_manifest_is_written_however_long_that_takes() -> None:
    made = started()
    number = taken(made, 1.0)
    assert made.next_s is None
    assert made.on_time(1_000.0) == []
    assert isinstance(made.on_written(number, 1_000.0)[0], Commit)


def test_a_late_snapshot_is_aborted_and_the_next_one_has_another_number() -> None:
    made = started()
    made.on_time(1.0)
    made.on_done(Done(1, 1, 1), 2.0)
    assert made.next_s == 61.0
    abort, trigger = made.on_time(61.0)
    assert abort == Abort(1, "after 60 s tasks have not saved their state: 2")
    assert trigger == Trigger(2, 1)
    assert made.on_done(Done(1, 2, 1), 61.0) == [], "late"
    save(made, 61.5)


def test_three_failures_in_a_row_are_a_rollback() -> None:
    made = started()
    for number in (1, 2):
        made.on_time(number * 10.0)
        assert made.on_failed(Failed(number, 2, 1, "full"), number * 10.0) == [Abort(number, "full")]
    made.on_time(30.0)
    reason = "3 snapshots in a row have failed: full"
    assert made.on_failed(Failed(3, 2, 1, "full"), 30.0) == [Abort(3, reason), Rollback(None, 2, reason)]
    assert made.phase is Phase.RESTORING
    assert made.on_time(100.0) == []


def test_a_snapshot_that_succeeds_ends_the_row_of_failures() -> None:
    made = started()
    for round_ in range(4):
        for failure in range(2):
            now_s = round_ * 100.0 + failure * 10.0 + 10.0
            (trigger,) = made.on_time(now_s)
            assert isinstance(trigger, Trigger)
            assert made.on_failed(Failed(trigger.number, 1, 1, "x"), now_s) == [Abort(trigger.number, "x")]
        number = taken(made, round_ * 100.0 + 50.0)
        made.on_written(number, round_ * 100.0 + 50.0)
        assert made.on_committed(number, 1, TASKS, round_ * 100.0 + 50.0) == []


def test_lost_rows_are_a_rollback_at_once() -> None:
    made = started()
    made.on_time(1.0)
    assert made.on_failed(Failed(1, 2, 1, "rows were lost", lost=True), 1.0) == [
        Abort(1, "rows were lost"),
        Rollback(None, 2, "rows were lost"),
    ]


def test_after_a_restore_the_snapshot_is_committed_again_before_the_next_one_begins() -> None:
    made = Coordinator(TASKS, SETTINGS, highest=9)
    assert made.on_restored(1, 7, 0.0) == [Commit(7, 1, TASKS)]
    assert made.on_time(50.0) == []
    assert made.on_committed(7, 1, TASKS, 50.0) == [Trigger(10, 1)], "above every number that a file names"


def test_a_commit_that_is_not_confirmed_is_sent_again_to_the_tasks_that_miss_it() -> None:
    made = Coordinator(TASKS, SETTINGS)
    made.on_restored(1, 7, 0.0)
    made.on_committed(7, 1, [1], 1.0)
    again = Commit(7, 1, frozenset({2}))
    assert made.on_time(60.0) == [again]
    assert made.on_time(60.0) == []
    assert made.on_time(120.0) == [again]
    assert made.on_time(180.0) == [Rollback(7, 2, "snapshot 7 is not committed by tasks 2")]


def test_a_worker_that_is_lost_while_state_is_saved_aborts_the_snapshot() -> None:
    made = started()
    made.on_time(1.0)
    assert made.on_worker_lost("worker 2") == [Abort(1, "worker 2"), Rollback(None, 2, "worker 2")]
    assert made.on_restored(1, None, 2.0) == [], "of the incarnation before"
    assert made.on_restored(2, None, 2.0) == []
    assert made.on_time(3.0) == [Trigger(2, 2)], "number 1 is not used again"
    assert made.on_done(Done(2, 1, 1), 3.0) == [], "of the incarnation before"
    assert made.on_failed(Failed(2, 1, 1, "x", lost=True), 3.0) == []


def test_a_worker_that_is_lost_while_tasks_commit_leaves_the_snapshot_as_it_is() -> None:
    made = started()
    number = taken(made, 1.0)
    made.on_written(number, 1.0)
    assert made.on_worker_lost("worker 2") == [Rollback(1, 2, "worker 2")]
    assert made.on_restored(2, 1, 2.0) == [Commit(1, 2, TASKS)]


@pytest.mark.parametrize("written", [True, False])
def test_a_worker_that_is_lost_while_the_manifest_is_written_waits_for_the_store(written: bool) -> None:
    made = started()
    number = taken(made, 1.0)
    assert made.on_worker_lost("worker 2") == []
    if written:
        assert made.on_written(number, 2.0) == [Rollback(1, 2, "worker 2")]
    else:
        assert made.on_write_failed(number, "full", 2.0, certain=True) == [
            Abort(1, "worker 2"),
            Rollback(None, 2, "worker 2"),
        ]


@pytest.mark.parametrize("there", [True, False])
def test_if_it_is_not_known_whether_the_manifest_was_written_the_restore_decides(there: bool) -> None:
    made = started()
    number = taken(made, 1.0)
    assert made.on_write_failed(number, "I/O error", 2.0, certain=False) == [Rollback(None, 2, "I/O error")]
    assert made.on_worker_lost("worker 1") == [Rollback(None, 3, "worker 1")], "a worker is lost meanwhile"
    if there:
        assert made.on_restored(3, 1, 3.0) == [Commit(1, 3, TASKS)]
    else:
        assert made.on_restored(3, None, 3.0) == [Abort(1, "the store has no manifest of it")]


def test_a_store_that_cannot_be_written_stops_snapshots_for_longer_each_time_and_rolls_nothing_back() -> None:
    made = started()
    now_s = 1.0
    waits = []
    for number in range(1, 11):
        assert taken(made, now_s) == number
        assert made.on_write_failed(number, "disk full", now_s, certain=True) == [Abort(number, "disk full")]
        assert made.next_s is not None
        waits.append(made.next_s - now_s)
        now_s = made.next_s
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    number = taken(made, now_s)
    made.on_written(number, now_s)
    made.on_committed(number, 1, TASKS, now_s)
    assert made.next_s == now_s + 1.0, "it has recovered"


def test_a_savepoint_begins_after_its_request_and_several_requests_share_one() -> None:
    made = started()
    made.on_time(1.0)  # has begun before the requests
    assert made.on_request("a", 1.1) == []
    assert made.on_request("b", 1.2) == []
    save(made, 1.3)
    made.on_written(1, 1.3)
    assert made.on_committed(1, 1, TASKS, 1.3) == [Trigger(2, 1)], "at once"
    done = [Done(2, task, 1) for task in TASKS]
    made.on_done(done[0], 1.4)
    (write,) = made.on_done(done[1], 1.4)
    assert isinstance(write, WriteManifest)
    assert write.savepoint
    made.on_written(2, 1.5)
    assert made.on_committed(2, 1, TASKS, 1.5) == [Answer(("a", "b"), 2)]


def test_a_request_survives_aborts_and_rollbacks() -> None:
    made = started()
    assert made.on_request("a", 0.1) == [Trigger(1, 1)]
    assert made.on_failed(Failed(1, 1, 1, "x"), 0.2) == [Abort(1, "x"), Trigger(2, 1)]
    made.on_worker_lost("worker")
    assert made.on_restored(2, None, 0.3) == [Trigger(3, 2)]
    save(made, 0.4)
    made.on_written(3, 0.4)
    assert made.on_committed(3, 2, TASKS, 0.4) == [Answer(("a",), 3)]


def test_a_drain_takes_a_final_snapshot_after_which_nothing_begins() -> None:
    made = started()
    made.on_time(1.0)
    assert made.on_drained(1, 1.1) == []
    save(made, 1.2)
    made.on_written(1, 1.2)
    assert made.on_committed(1, 1, TASKS, 1.2) == [Trigger(2, 1)], "a snapshot that begins after the drain"
    save(made, 1.3)
    assert made.on_written(2, 1.3) == [Commit(2, 1, TASKS)]
    assert made.on_committed(2, 1, TASKS, 1.3) == [Closed(2)]
    assert made.next_s is None
    assert made.on_time(1e9) == []
    assert made.on_request("late", 1e9) == []
    assert made.on_drained(1, 1e9) == []
    assert made.on_worker_lost("the end") == []


def test_a_rollback_during_a_drain_drops_the_final_snapshot() -> None:
    made = started()
    assert made.on_drained(1, 0.5) == [Trigger(1, 1)]
    made.on_worker_lost("worker")
    assert made.on_drained(1, 0.6) == [], "of the incarnation before"
    assert made.on_drained(2, 0.6) == [], "the tasks are not built yet"
    assert made.on_restored(2, None, 0.7) == []
    assert made.on_time(1.8) == [Trigger(2, 2)]
    save(made, 1.9)
    made.on_written(2, 1.9)
    assert made.on_committed(2, 2, TASKS, 1.9) == [], "a usual snapshot"
    assert made.on_drained(2, 2.0) == [Trigger(3, 2)]


def test_if_an_older_snapshot_was_restored_numbers_go_on_above_the_newest() -> None:
    made = started()
    number = taken(made, 1.0)
    made.on_written(number, 1.0)
    made.on_committed(number, 1, TASKS, 1.0)
    number = taken(made, 3.0)
    made.on_written(number, 3.0)
    assert made.on_worker_lost("worker") == [Rollback(2, 2, "worker")]
    assert made.on_restored(2, 1, 4.0) == [Commit(1, 2, TASKS)], "2 is damaged"
    assert made.durable == 1
    assert made.on_committed(1, 2, TASKS, 9.0) == [Trigger(3, 2)]


# -- what is not asked for ---------------------------------------------------------------------------------------------


def test_answers_of_the_store_count_only_while_the_manifest_is_written() -> None:
    made = started()
    assert made.on_written(1, 0.0) == []
    assert made.on_write_failed(1, "x", 0.0, certain=False) == [], "nothing is in progress"
    made.on_time(1.0)
    assert made.on_written(1, 1.0) == []
    assert made.on_write_failed(1, "x", 1.0, certain=True) == [], "tasks save their state"
    save(made, 1.1)
    assert made.on_written(2, 1.1) == []
    assert made.on_write_failed(2, "x", 1.1, certain=True) == [], "another number"
    made.on_written(1, 1.2)
    assert made.on_written(1, 1.2) == []
    assert made.on_write_failed(1, "x", 1.2, certain=True) == [], "tasks commit"
    assert made.phase is Phase.COMMITTING
    assert made.durable == 1
    made.on_worker_lost("worker")
    assert made.on_written(1, 1.3) == []
    assert made.on_write_failed(1, "x", 1.3, certain=True) == [], "tasks are built"
    assert made.phase is Phase.RESTORING


def test_messages_of_tasks_count_only_in_their_phase_and_for_the_snapshot_in_progress() -> None:
    made = started()
    assert made.number is None
    assert made.on_done(Done(1, 1, 1), 0.5) == []
    assert made.on_failed(Failed(1, 1, 1, "x", lost=True), 0.5) == []
    assert made.on_committed(1, 1, TASKS, 0.5) == []
    made.on_time(1.0)
    assert made.number == 1
    assert made.on_failed(Failed(2, 1, 1, "x", lost=True), 1.0) == [], "another number"
    assert made.on_failed(Failed(1, 1, 2, "x", lost=True), 1.0) == [], "another incarnation"
    assert made.on_committed(1, 1, TASKS, 1.0) == [], "it is not durable yet"
    save(made, 1.1)
    assert made.on_failed(Failed(1, 1, 1, "x", lost=True), 1.1) == [], "it has saved its state before"
    made.on_written(1, 1.2)
    assert made.on_done(Done(1, 1, 1), 1.2) == []
    assert made.on_failed(Failed(1, 1, 1, "x", lost=True), 1.2) == []
    assert made.on_committed(2, 1, TASKS, 1.2) == []
    assert made.on_committed(1, 2, TASKS, 1.2) == []
    assert made.on_committed(1, 1, [99], 1.2) == [], "a task that commits nothing"
    assert made.phase is Phase.COMMITTING
    assert made.on_committed(1, 1, TASKS, 1.3) == []
    assert made.phase is Phase.IDLE


def test_a_drain_is_refused_without_a_word_before_the_tasks_are_built_and_for_older_tasks() -> None:
    made = Coordinator(TASKS, SETTINGS)
    assert made.on_drained(1, 0.0) == []
    made.on_restored(1, None, 0.0)
    assert made.on_drained(0, 0.0) == []
    assert made.next_s == 1.0, "no final snapshot is wanted"
    assert made.on_drained(1, 0.1) == [Trigger(1, 1)]


def test_at_most_ten_late_tasks_are_named() -> None:
    made = Coordinator(range(1, 13), SETTINGS)
    made.on_restored(1, None, 0.0)
    made.on_time(1.0)
    made.on_done(Done(1, 1, 1), 2.0)
    abort, _ = made.on_time(61.0)
    assert abort == Abort(1, "after 60 s tasks have not saved their state: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11")


def test_a_store_that_fails_for_days_is_asked_once_a_timeout() -> None:
    made = started()
    now_s = 1.0
    for _ in range(2_000):
        number = taken(made, now_s)
        made.on_write_failed(number, "disk full", now_s, certain=True)
        assert made.next_s is not None
        assert made.next_s <= now_s + 60.0
        now_s = made.next_s
    assert now_s > 1_900 * 60.0


def test_a_task_whose_store_fails_counts_as_the_store() -> None:
    made = started()
    for number in (1, 2, 3, 4):
        assert made.next_s is not None
        now_s = made.next_s
        assert made.on_time(now_s) == [Trigger(number, 1)]
        failed = Failed(number, 2, 1, "disk full", stored=True)
        assert made.on_failed(failed, now_s) == [Abort(number, "disk full")], "no rollback"
        assert made.next_s == now_s + 2.0 ** (number - 1)


def test_a_savepoint_is_one_snapshot_and_a_request_for_now_is_none() -> None:
    made = started()
    assert made.on_request("now", 0.1, savepoint=False) == [Trigger(1, 1)]
    for wanted in (False, True, False):
        done = [Done(made.number or 0, task, 1) for task in TASKS]
        assert made.on_done(done[0], 0.2) == []
        (write,) = made.on_done(done[1], 0.2)
        assert isinstance(write, WriteManifest)
        assert write.savepoint is wanted
        made.on_written(write.number, 0.2)
        if write.number == 1:
            made.on_request("keep", 0.2)
        elif write.number == 2:
            made.on_request("now", 0.2, savepoint=False)
        made.on_committed(write.number, 1, TASKS, 0.2)


def test_a_report_says_nothing_that_a_task_did_not_say() -> None:
    assert Done(1, 2, 3) == Done(1, 2, 3, (), 0.0, {})
    assert Failed(1, 2, 3, "x") == Failed(1, 2, 3, "x", lost=False, final=False, stored=False)
    assert SnapshotSettings() == SnapshotSettings(1.0, 60.0, 3)
