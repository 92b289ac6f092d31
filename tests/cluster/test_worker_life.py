"""The life of a worker, as its parent sees it: the machine alone, the times by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.parent.worker_life import Degraded, Kill, LifeTimings, Phase, Recovered, Spawn, WorkerLife
from aiostorm.runtime import LivenessSettings


def crash(life: WorkerLife, now_s: float) -> float | None:
    """It ends; how long until it is started again."""
    decisions = life.exited(now_s, "exit code 1")
    if Spawn() in decisions:
        return 0.0
    assert life.phase is Phase.BACKOFF
    assert life.due_s is not None
    assert life.tick(life.due_s - 0.001) == []
    due_s = life.due_s
    assert life.tick(due_s) == [Spawn()]
    return round(due_s - now_s, 6)


def test_a_worker_is_restarted_at_once_and_then_with_growing_delays() -> None:
    life = WorkerLife()
    assert life.begin(0.0) == [Spawn()]
    assert [crash(life, now_s) for now_s in (1.0, 2.0, 3.0)] == [0.0, 0.2, 1.0]
    assert not life.degraded
    assert crash(life, 5.0) == 5.0
    assert life.exited(11.0, "signal 9")[0] == Degraded(life.degraded)
    assert "5 times in 30 s, the last time: signal 9" in life.degraded
    assert life.tick(16.0) == [Spawn()]
    assert life.restarts == 5


def test_the_restart_delay_begins_anew_after_half_a_minute_without_a_failure() -> None:
    life = WorkerLife()
    life.begin(0.0)
    crash(life, 1.0)
    crash(life, 2.0)
    assert crash(life, 40.0) == 0.0


def test_degraded_ends_when_the_worker_has_run_for_half_a_minute() -> None:
    life = WorkerLife()
    life.begin(0.0)
    for now_s in (1.0, 2.0, 3.0, 4.0, 10.0):
        crash(life, now_s)
    life.ready(16.0)
    for now_s in range(17, 40):
        life.alive(now_s)
        assert life.tick(now_s) == []
    life.alive(40.0)
    assert life.tick(40.0) == [Recovered()]
    assert not life.degraded


def test_a_frozen_worker_is_killed_once_and_started_again() -> None:
    life = WorkerLife()
    life.begin(0.0)
    life.ready(1.0)
    life.alive(2.0)
    assert life.due_s == 7.0
    assert life.tick(6.9) == []
    assert life.tick(7.0) == [Kill("no sign of life for 5 s")]
    life.alive(7.1)
    assert life.tick(100.0) == []
    assert life.exited(100.0, "killed") == [Spawn()]


def test_a_worker_that_is_never_ready_is_killed_and_degraded() -> None:
    life = WorkerLife()
    life.begin(0.0)
    life.alive(30.0)
    assert life.tick(60.0) == [Kill("it was not ready 60 s after its start")]
    assert life.exited(60.1, "it was not ready") == [Degraded("it was not ready"), Spawn()]


def test_the_start_timeout_of_a_remote_worker_begins_when_it_joins() -> None:
    life = WorkerLife(awaited=True)
    assert life.begin(0.0) == [Spawn()]
    assert life.tick(60.0) == [Degraded("it has not joined for 60 s")]
    assert life.is_missed
    assert life.due_s is None
    assert life.joined(1000.0) == [Recovered()]
    assert not life.degraded
    assert not life.is_missed
    assert life.tick(1059.0) == []
    assert life.tick(1060.0) == [Kill("it was not ready 60 s after its start")]
    assert life.exited(1060.0, "it was not ready") == [Degraded("it was not ready"), Spawn()]
    assert not life.is_missed
    assert life.joined(1061.0) == []
    life.ready(1062.0)
    life.alive(1089.0)
    assert life.tick(1090.0) == [Recovered()]


def test_a_worker_stops_in_each_phase() -> None:
    starting, waiting, stuck = WorkerLife(), WorkerLife(), WorkerLife()
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
    for life in (starting, waiting, stuck):
        assert life.due_s is None
        assert life.tick(1000.0) == []


events = st.lists(
    st.tuples(st.sampled_from(["joined", "ready", "alive", "exited", "tick"]), st.floats(0.001, 20)), max_size=60
)


@given(events, st.booleans())
def test_a_worker_has_at_most_one_process_and_is_never_without_one_for_long(
    steps: list[tuple[str, float]], awaited: bool
) -> None:
    life = WorkerLife(awaited=awaited)
    alive = life.begin(0.0) == [Spawn()]
    killed = False
    now_s = 0.0
    for step, after_s in steps:
        now_s += after_s
        if step == "exited" and not alive:
            continue
        if step == "exited":
            alive = killed = False
            decisions = life.exited(now_s, "x")
        else:
            decisions = getattr(life, step)(now_s)
        for decision in decisions:
            if isinstance(decision, Spawn):
                assert not alive
                alive = True
            if isinstance(decision, Kill):
                assert alive
                assert not killed
                killed = True
        assert alive or (life.due_s is not None and life.due_s - now_s <= 5.0)
        assert killed or life.due_s is not None or (life.is_missed and life.joined(now_s) == [Recovered()])


def test_an_end_counts_for_less_than_half_a_minute() -> None:
    for passed_s, delay_s in ((30.0, 0.0), (29.999, 0.2)):
        life = WorkerLife()
        life.begin(0.0)
        assert crash(life, 1.0) == 0.0
        assert crash(life, 1.0 + passed_s) == delay_s


def test_five_ends_in_exactly_half_a_minute_do_not_make_it_degraded() -> None:
    for last_s, degraded in ((31.0, False), (30.999, True)):
        life = WorkerLife()
        life.begin(0.0)
        for now_s in (1.0, 2.0, 3.0, 10.0, last_s):
            crash(life, now_s)
        assert bool(life.degraded) is degraded


def test_the_limits_of_a_topology_are_those_of_its_settings() -> None:
    timings = LifeTimings.of(LivenessSettings(worker_timeout_s=6.0, worker_start_timeout_s=70.0))
    assert (timings.lease_s, timings.start_limit_s) == (6.0, 70.0)
    life = WorkerLife(timings)
    life.begin(0.0)
    assert life.due_s == 70.0
    assert life.ready(1.0) == []
    assert life.due_s == 7.0
    assert life.alive(2.0) == []
    assert life.due_s == 8.0
    assert life.tick(7.999) == []
    assert life.tick(8.0) == [Kill("no sign of life for 6 s")]
    assert life.due_s is None
    assert life.stop(9.0) == []
    assert (life.phase, life.due_s) == (Phase.STOPPING, None)  # it is killed already


def test_a_degraded_worker_is_looked_at_when_it_may_have_recovered() -> None:
    life = WorkerLife(LifeTimings(lease_s=100.0))
    life.begin(0.0)
    for now_s in (1.0, 2.0, 3.0, 4.0, 10.0):
        crash(life, now_s)
    life.ready(16.0)
    assert life.degraded
    assert life.due_s == 40.0
    assert life.tick(40.0) == [Recovered()]
    assert life.due_s == 116.0
