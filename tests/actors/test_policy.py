"""Restart policy: how often, how long in between, and when it is enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.actors import (
    ESCALATE_ON_FAILURE,
    RESUME_ON_FAILURE,
    STOP_ON_FAILURE,
    Directive,
    FailureHistory,
    RestartPolicy,
)
from aiostorm.runtime import AiostormError

ERROR = ValueError("x")


def test_backoff_grows_and_its_last_step_repeats() -> None:
    history = FailureHistory(RestartPolicy(max_restarts=5, within_s=100, backoff_s=(0, 1, 4)))
    decisions = [history.failed(ERROR, now_s) for now_s in range(5)]
    assert [d.delay_s for d in decisions] == [0, 1, 4, 4, 4]
    assert [d.restarts for d in decisions] == [1, 2, 3, 4, 5]
    assert history.failed(ERROR, 5).directive is Directive.ESCALATE


def test_the_directive_is_chosen_by_exception() -> None:
    def decide(error: BaseException) -> Directive:
        return Directive.STOP if isinstance(error, KeyError) else Directive.RESTART

    history = FailureHistory(RestartPolicy(decide=decide))
    assert history.failed(KeyError(), 0).directive is Directive.STOP
    assert history.failed(ERROR, 0).directive is Directive.RESTART


@pytest.mark.parametrize(
    ("policy", "directive"),
    [
        (RESUME_ON_FAILURE, Directive.RESUME),
        (STOP_ON_FAILURE, Directive.STOP),
        (ESCALATE_ON_FAILURE, Directive.ESCALATE),
    ],
)
def test_resume_stop_and_escalate_are_not_counted(policy: RestartPolicy, directive: Directive) -> None:
    history = FailureHistory(policy)
    assert {history.failed(ERROR, 0).directive for _ in range(100)} == {directive}


def test_an_error_that_is_final_escalates_at_once() -> None:
    error = AiostormError("no restart would help")
    assert FailureHistory(RestartPolicy()).failed(error, 0).directive is Directive.RESTART
    error.final = True
    assert FailureHistory(RestartPolicy()).failed(error, 0).directive is Directive.ESCALATE


def test_an_actor_that_never_started_is_restarted_instead_of_resumed() -> None:
    history = FailureHistory(RESUME_ON_FAILURE)
    decisions = [history.failed(ERROR, 0, resumable=False) for _ in range(6)]
    assert [d.directive for d in decisions] == [Directive.RESTART] * 5 + [Directive.ESCALATE]


def test_no_restarts_at_all() -> None:
    assert FailureHistory(RestartPolicy(max_restarts=0)).failed(ERROR, 0).directive is Directive.ESCALATE


@pytest.mark.parametrize(
    "wrong", [{"max_restarts": -1}, {"within_s": 0}, {"backoff_s": ()}, {"backoff_s": (0, -1)}], ids=str
)
def test_impossible_policies(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="non-negative waits"):
        RestartPolicy(**wrong)  # type: ignore[arg-type]


@given(
    max_restarts=st.integers(0, 6),
    within_s=st.integers(1, 50),
    gaps=st.lists(st.integers(0, 30), min_size=1, max_size=60),
)
def test_never_more_restarts_within_a_time_than_allowed(max_restarts: int, within_s: int, gaps: list[int]) -> None:
    history = FailureHistory(RestartPolicy(max_restarts, within_s, (0.0, 1.0)))
    now_s = 0
    restarts: list[int] = []
    for gap in gaps:
        now_s += gap
        recent = [at for at in restarts if at > now_s - within_s]
        decision = history.failed(ERROR, now_s)
        if len(recent) >= max_restarts:
            assert decision.directive is Directive.ESCALATE
            return
        assert decision.directive is Directive.RESTART
        assert decision.restarts == len(recent) + 1
        assert decision.delay_s == (1.0 if recent else 0.0)
        restarts.append(now_s)


def test_five_restarts_in_half_a_minute_unless_others_are_given() -> None:
    policy = RestartPolicy()
    assert (policy.max_restarts, policy.within_s, policy.backoff_s) == (5, 30.0, (0.0, 0.2, 1.0, 5.0))


@pytest.mark.parametrize(
    ("policy", "directive"), [(STOP_ON_FAILURE, Directive.STOP), (ESCALATE_ON_FAILURE, Directive.ESCALATE)]
)
def test_an_actor_that_never_started_can_be_stopped(policy: RestartPolicy, directive: Directive) -> None:
    decision = FailureHistory(policy).failed(ERROR, 0, resumable=False)
    assert (decision.directive, decision.delay_s, decision.restarts) == (directive, 0.0, 0)
