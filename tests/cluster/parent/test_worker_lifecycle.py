"""The lifecycle of a worker, as its parent sees it: the machine alone, the times by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.parent.worker_lifecycle import (
    Degraded,
    Kill,
    LifecycleTimings,
    Phase,
    Recovered,
    Spawn,
    WorkerLifecycle,
)
from aiostorm.runtime import LivenessSettings


def crash(lifecycle: WorkerLifecycle, now_s: float) -> float | None:
    """It ends; how long until it is started again."""
    decisions = lifecycle.exited(now_s, "exit code 1")
    if Spawn() in decisions:
        return 0.0
    assert lifecycle.phase is Phase.BACKOFF
    assert lifecycle.due_s is not None
    assert lifecycle.tick(lifecycle.due_s - 0.001) == []
    due_s = lifecycle.due_s
    assert lifecycle.tick(due_s) == [Spawn()]
    return round(due_s - now_s, 6)


def test_a_worker_is_restarted_at_once_and_then_with_growing_delays() -> None:
    lifecycle = WorkerLifecycle()
    assert lifecycle.begin(0.0) == [Spawn()]
    assert [crash(lifecycle, now_s) for now_s in (1.0, 2.0, 3.0)] == [0.0, 0.2, 1.0]
    assert not lifecycle.degraded
    assert crash(lifecycle, 5.0) == 5.0
    assert lifecycle.exited(11.0, "signal 9")[0] == Degraded(lifecycle.degraded)
    assert "5 times in 30 s, the last time: signal 9" in lifecycle.degraded
    assert lifecycle.tick(16.0) == [Spawn()]
    assert lifecycle.restarts == 5


def test_the_restart_delay_begins_anew_after_half_a_minute_without_a_failure() -> None:
    lifecycle = WorkerLifecycle()
    lifecycle.begin(0.0)
    crash(lifecycle, 1.0)
    crash(lifecycle, 2.0)
    assert crash(lifecycle, 40.0) == 0.0


def test_after_progress_a_worker_is_restarted_at_once_again_and_its_ends_are_still_counted() -> None:
    lifecycle = WorkerLifecycle()
    lifecycle.begin(0.0)
    for now_s in (1.0, 2.0, 3.0, 9.0):
        lifecycle.ready(now_s)
        lifecycle.progressed()
        assert crash(lifecycle, now_s) == 0.0
    lifecycle.progressed()  # it starts: what is committed now was done before
    assert crash(lifecycle, 10.0) == 0.2
    assert "5 times in 30 s" in lifecycle.degraded


def test_degraded_ends_when_the_worker_has_run_for_half_a_minute() -> None:
    lifecycle = WorkerLifecycle()
    lifecycle.begin(0.0)
    for now_s in (1.0, 2.0, 3.0, 4.0, 10.0):
        crash(lifecycle, now_s)
    lifecycle.ready(16.0)
    for now_s in range(17, 40):
        lifecycle.alive(now_s)
        assert lifecycle.tick(now_s) == []
    lifecycle.alive(40.0)
    assert lifecycle.tick(40.0) == [Recovered()]
    assert not lifecycle.degraded


def test_a_frozen_worker_is_killed_once_and_started_again() -> None:
    lifecycle = WorkerLifecycle()
    lifecycle.begin(0.0)
    lifecycle.ready(1.0)
    lifecycle.alive(2.0)
    assert lifecycle.due_s == 7.0
    assert lifecycle.tick(6.9) == []
    assert lifecycle.tick(7.0) == [Kill("no sign of life for 5 s")]
    lifecycle.alive(7.1)
    assert lifecycle.tick(100.0) == []
    assert lifecycle.exited(100.0, "killed") == [Spawn()]


def test_a_worker_that_is_never_ready_is_killed_and_degraded() -> None:
    lifecycle = WorkerLifecycle()
    lifecycle.begin(0.0)
    lifecycle.alive(30.0)
    assert lifecycle.tick(60.0) == [Kill("it was not ready 60 s after its start")]
    assert lifecycle.exited(60.1, "it was not ready") == [Degraded("it was not ready"), Spawn()]


def test_the_start_timeout_of_a_remote_worker_begins_when_it_joins() -> None:
    lifecycle = WorkerLifecycle(awaited=True)
    assert lifecycle.begin(0.0) == [Spawn()]
    assert lifecycle.tick(60.0) == [Degraded("it has not joined for 60 s")]
    assert lifecycle.is_missed
    assert lifecycle.due_s is None
    assert lifecycle.joined(1000.0) == [Recovered()]
    assert not lifecycle.degraded
    assert not lifecycle.is_missed
    assert lifecycle.tick(1059.0) == []
    assert lifecycle.tick(1060.0) == [Kill("it was not ready 60 s after its start")]
    assert lifecycle.exited(1060.0, "it was not ready") == [Degraded("it was not ready"), Spawn()]
    assert not lifecycle.is_missed
    assert lifecycle.joined(1061.0) == []
    lifecycle.ready(1062.0)
    lifecycle.alive(1089.0)
    assert lifecycle.tick(1090.0) == [Recovered()]


def test_a_worker_stops_in_each_phase() -> None:
    starting, waiting, stuck = WorkerLifecycle(), WorkerLifecycle(), WorkerLifecycle()
    starting.begin(0.0)
    starting.stop(1.0)
    assert starting.phase is Phase.STOPPING
    assert starting.exited(2.0, "exit code 0") == []
    assert starting.phase is Phase.ENDED
    waiting.begin(0.0)
    crash(waiting, 0.1)
    waiting.exited(0.2, "x")
    waiting.stop(0.3)
    assert waiting.phase is Phase.ENDED
    stuck.begin(0.0)
    stuck.ready(1.0)
    stuck.stop(2.0)
    assert stuck.tick(12.0) == [Kill("it did not end within 10 s")]
    assert stuck.exited(12.1, "killed") == []
    assert stuck.phase is Phase.ENDED
    for lifecycle in (starting, waiting, stuck):
        assert lifecycle.due_s is None
        assert lifecycle.tick(1000.0) == []


events = st.lists(
    st.tuples(st.sampled_from(["joined", "ready", "alive", "exited", "tick"]), st.floats(0.001, 20)), max_size=60
)


@given(events, st.booleans())
def test_a_worker_has_at_most_one_process_and_is_never_without_one_for_long(
    steps: list[tuple[str, float]], awaited: bool
) -> None:
    lifecycle = WorkerLifecycle(awaited=awaited)
    alive = lifecycle.begin(0.0) == [Spawn()]
    killed = False
    now_s = 0.0
    for step, after_s in steps:
        now_s += after_s
        if step == "exited" and not alive:
            continue
        if step == "exited":
            alive = killed = False
            decisions = lifecycle.exited(now_s, "x")
        else:
            decisions = getattr(lifecycle, step)(now_s)
        for decision in decisions:
            if isinstance(decision, Spawn):
                assert not alive
                alive = True
            if isinstance(decision, Kill):
                assert alive
                assert not killed
                killed = True
        assert alive or (lifecycle.due_s is not None and lifecycle.due_s - now_s <= 5.0)
        assert (
            killed or lifecycle.due_s is not None or (lifecycle.is_missed and lifecycle.joined(now_s) == [Recovered()])
        )


def test_an_end_counts_for_less_than_half_a_minute() -> None:
    for passed_s, delay_s in ((30.0, 0.0), (29.999, 0.2)):
        lifecycle = WorkerLifecycle()
        lifecycle.begin(0.0)
        assert crash(lifecycle, 1.0) == 0.0
        assert crash(lifecycle, 1.0 + passed_s) == delay_s


def test_five_ends_in_exactly_half_a_minute_do_not_make_it_degraded() -> None:
    for last_s, degraded in ((31.0, False), (30.999, True)):
        lifecycle = WorkerLifecycle()
        lifecycle.begin(0.0)
        for now_s in (1.0, 2.0, 3.0, 10.0, last_s):
            crash(lifecycle, now_s)
        assert bool(lifecycle.degraded) is degraded


def test_the_limits_of_a_topology_are_those_of_its_settings() -> None:
    timings = LifecycleTimings.of(LivenessSettings(worker_timeout_s=6.0, worker_start_timeout_s=70.0))
    assert (timings.lease_s, timings.start_limit_s) == (6.0, 70.0)
    lifecycle = WorkerLifecycle(timings)
    lifecycle.begin(0.0)
    assert lifecycle.due_s == 70.0
    assert lifecycle.ready(1.0) == []
    assert lifecycle.due_s == 7.0
    assert lifecycle.alive(2.0) == []
    assert lifecycle.due_s == 8.0
    assert lifecycle.tick(7.999) == []
    assert lifecycle.tick(8.0) == [Kill("no sign of life for 6 s")]
    assert lifecycle.due_s is None
    assert lifecycle.stop(9.0) == []
    assert (lifecycle.phase, lifecycle.due_s) == (Phase.STOPPING, None)  # it is killed already


def test_a_degraded_worker_is_looked_at_when_it_may_have_recovered() -> None:
    lifecycle = WorkerLifecycle(LifecycleTimings(lease_s=100.0))
    lifecycle.begin(0.0)
    for now_s in (1.0, 2.0, 3.0, 4.0, 10.0):
        crash(lifecycle, now_s)
    lifecycle.ready(16.0)
    assert lifecycle.degraded
    assert lifecycle.due_s == 40.0
    assert lifecycle.tick(40.0) == [Recovered()]
    assert lifecycle.due_s == 116.0
