"""Liveness: the defaults are in order, and settings that are not are refused with what to change."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from aiostorm.cluster import LifeTimings
from aiostorm.runtime import LIVENESS, LivenessSettings, liveness_problems
from aiostorm.runtime.liveness import ORDER
from aiostorm.topology import Config, ConfigError
from aiostorm.transport import LinkTimings

NAMES = [each.name for each in fields(LivenessSettings)]


def test_the_defaults_are_in_order() -> None:
    assert LivenessSettings() == LIVENESS
    assert {name for short, long, _ in ORDER for name in (short, long)} <= set(NAMES)


@pytest.mark.parametrize(("short", "long", "why"), ORDER)
def test_each_pair_of_the_order_is_checked(short: str, long: str, why: str) -> None:
    values = {name: getattr(LIVENESS, name) for name in NAMES} | {short: getattr(LIVENESS, long) * 2}
    problems = liveness_problems(values, {short: "given = 9"})
    advice = f"{long} = {getattr(LIVENESS, long):g}, {why}: lower the first or raise the second"
    assert any(problem.startswith("given = 9 must be ") and problem.endswith(advice) for problem in problems)
    with pytest.raises(ValueError, match=f"{short} = .* must be .* {long} = "):
        replace(LIVENESS, **{short: getattr(LIVENESS, long) * 2})


@pytest.mark.parametrize("name", NAMES)
def test_no_time_is_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = 0: must be more than 0"):
        replace(LIVENESS, **{name: 0.0})


def test_a_heartbeat_is_shorter_than_its_timeout() -> None:
    with pytest.raises(ValueError, match=r"link_heartbeat_s = 3 must be shorter than link_timeout_s = 3"):
        LivenessSettings(link_heartbeat_s=3.0)


def test_others_have_their_defaults_from_here() -> None:
    assert Config().liveness == LIVENESS
    assert LifeTimings() == LifeTimings.of(LIVENESS)
    assert (LinkTimings().heartbeat_s, LinkTimings().dead_s) == (LIVENESS.link_heartbeat_s, LIVENESS.link_timeout_s)
    assert Config().graceful_stop_s == LIVENESS.graceful_stop_s
    assert Config().stall_report_s == LIVENESS.stall_report_s


def test_settings_of_a_topology_have_storms_keys() -> None:
    config = Config(**{"supervisor.worker.timeout.secs": 30, "supervisor.worker.start.timeout.secs": 120})
    timings = LifeTimings.of(config.liveness)
    assert (timings.lease_s, timings.start_limit_s) == (30, 120)
    assert config.ignored == ()
    assert Config(**{"topology.worker.timeout.secs": 20}).liveness.worker_timeout_s == 20


def test_a_config_out_of_order_says_what_was_given_and_what_to_change() -> None:
    with pytest.raises(ConfigError) as refused:
        Config(**{"supervisor.worker.timeout.secs": 4})
    (problem,) = refused.value.problems
    assert problem == (
        "worker_parent_timeout_s = 5 (default) must be at most as long as supervisor.worker.timeout.secs = 4 (keyword)"
        ", or two processes could do the work of one: lower the first or raise the second"
    )
    layers = {"supervisor.worker.timeout.secs": 0.2, "topology.worker.parent.timeout.secs": 0.1}
    with pytest.raises(ConfigError, match=r"worker_monitor_s = 0.25 \(default\) must be shorter than supervisor"):
        Config(**layers)
