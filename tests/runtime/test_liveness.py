"""Liveness: the defaults are in order, and settings that are not are refused with what to change."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from aiostorm.cluster import LifecycleTimings
from aiostorm.runtime import LIVENESS, LIVENESS_ORDER, Given, LivenessSettings, Order, order_problems
from aiostorm.topology import Config, ConfigError
from aiostorm.transport import LinkTimings

NAMES = [each.name for each in fields(LivenessSettings)]


def test_the_defaults_are_in_order() -> None:
    assert LivenessSettings() == LIVENESS
    assert {name for order in LIVENESS_ORDER for name in (order.low, order.high)} <= set(NAMES)


@pytest.mark.parametrize("order", LIVENESS_ORDER, ids=lambda order: f"{order.low}-{order.high}")
def test_each_order_is_checked(order: Order) -> None:
    high = getattr(LIVENESS, order.high)
    bound = "more than" if order.strict else "at least"
    message = (
        f"{order.high} = {high!r} (given) must be {bound} {high * 2:g}, the value of {order.low} (given){order.why}"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(LIVENESS, **{order.low: high * 2})


def test_a_setting_is_checked_before_those_that_depend_on_it() -> None:
    lows = [order.low for order in LIVENESS_ORDER]
    for index, order in enumerate(LIVENESS_ORDER):
        assert order.high not in lows[:index], order


@pytest.mark.parametrize("name", NAMES)
def test_no_time_is_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = 0: must be more than 0"):
        replace(LIVENESS, **{name: 0.0})


def test_a_heartbeat_is_shorter_than_its_timeout() -> None:
    with pytest.raises(
        ValueError, match=r"link_timeout_s = 3.0 \(given\) must be more than 3, the value of link_heartbeat_s"
    ):
        LivenessSettings(link_heartbeat_s=3.0)


def test_others_have_their_defaults_from_here() -> None:
    assert Config().liveness == LIVENESS
    assert LifecycleTimings() == LifecycleTimings.of(LIVENESS)
    assert (LinkTimings().heartbeat_s, LinkTimings().dead_s) == (LIVENESS.link_heartbeat_s, LIVENESS.link_timeout_s)
    assert Config().graceful_stop_s == LIVENESS.graceful_stop_s
    assert Config().stall_report_s == LIVENESS.stall_report_s


def test_settings_of_a_topology_have_storms_keys() -> None:
    config = Config(**{"supervisor.worker.timeout.secs": 30, "supervisor.worker.start.timeout.secs": 120})
    timings = LifecycleTimings.of(config.liveness)
    assert (timings.lease_s, timings.start_limit_s) == (30, 120)
    assert config.ignored == ()
    assert Config(**{"topology.worker.timeout.secs": 20}).liveness.worker_timeout_s == 20


ONE = "or two processes could do the work of one"
START = "since a start takes longer than an answer"
REFUSED: list[tuple[dict[str, float], list[str]]] = [
    # What the user wrote, and what the error says about it.
    (
        {"supervisor.worker.timeout.secs": 0.1},
        [f"must be at least 5, the value of worker_parent_timeout_s (default), {ONE}"],
    ),
    (
        {"supervisor.worker.timeout.secs": 0.1, "worker_parent_timeout_s": 0.05},
        [
            (
                "must be at least 3, the value of link_timeout_s (fixed), "
                "or a worker would be killed before its connection is opened again"
            )
        ],
    ),
    (
        {"worker_timeout_s": 5.5, "supervisor.monitor.frequency.secs": 6},
        [
            (
                "must be more than 6, the value of supervisor.monitor.frequency.secs (keyword), "
                "or a worker would be killed between two checks"
            )
        ],
    ),
    (
        {"supervisor.monitor.frequency.secs": 5},
        [
            (
                "must be less than 5, the value of worker_timeout_s (default), "
                "or a worker would be killed between two checks"
            )
        ],
    ),
    (
        {"topology.worker.parent.timeout.secs": 100},
        [f"must be at most 5, the value of worker_timeout_s (default), {ONE}"],
    ),
    (
        {"topology.worker.timeout.secs": 200},
        [f"must be at most 60, the value of worker_start_timeout_s (default), {START}"],
    ),
    (
        {"supervisor.worker.start.timeout.secs": 2},
        [f"must be at least 5, the value of worker_timeout_s (default), {START}"],
    ),
    (
        {"topology.worker.child.parent.timeout.secs": 3},
        [
            (
                "must be at least 5, the value of worker_parent_timeout_s (default), "
                "since a worker that dies with its parent may wait longer"
            )
        ],
    ),
    (
        {"supervisor.worker.timeout.secs": 1, "worker_start_timeout_s": 2},
        [
            f"must be at least 5, the value of worker_parent_timeout_s (default), {ONE}",
            f"must be at least 5, the least value of supervisor.worker.timeout.secs (keyword), {START}",
        ],
    ),
]


@pytest.mark.parametrize(("settings", "errors"), REFUSED, ids=lambda value: "-".join(value))
def test_an_error_names_the_users_setting_and_what_it_may_be(settings: dict[str, float], errors: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        Config(**settings)
    allowed = dict(settings)
    for (key, value), problem, error in zip(settings.items(), refused.value.problems, errors, strict=False):
        assert problem == f"{key} = {value} (keyword) {error}"
        limit = float(error.split(",")[0].split(" ")[-1])
        allowed[key] = limit * {"more": 1.01, "less": 0.99}.get(error.split(" ")[2], 1)
    assert len(refused.value.problems) == len(errors)
    Config(**allowed)  # the error's advice is enough


def test_an_error_never_asks_for_a_value_that_another_order_refuses() -> None:
    with pytest.raises(ConfigError) as refused:
        Config(worker_parent_timeout_s=55, worker_timeout_s=100, worker_child_parent_timeout_s=80)
    assert refused.value.problems == (
        f"worker_timeout_s = 100 (keyword) must be at most 60, the value of worker_start_timeout_s (default), {START}",
    )
    with pytest.raises(ConfigError) as refused:
        Config(worker_parent_timeout_s=70, worker_timeout_s=100, worker_child_parent_timeout_s=80)
    assert refused.value.problems == (
        "worker_start_timeout_s = 60.0 (default) must be at least 100, the value of worker_timeout_s (keyword), "
        + START,
    )


SETTABLE = [order for order in LIVENESS_ORDER if {order.low, order.high} & Config.model_fields.keys()]


@pytest.mark.parametrize("order", SETTABLE, ids=lambda order: f"{order.low}-{order.high}")
def test_each_order_with_a_setting_of_the_user_names_this_setting(order: Order) -> None:
    values = {order.low: 9.0, order.high: 2.0}
    given = {name: Given(f"key.of.{name}", value, "-c") for name, value in values.items()}
    defaults = {name: Given(name, value, "default") for name, value in values.items()}

    def problem(*written: str) -> list[str]:
        return order_problems(values, [order], {name: given[name] for name in written}, defaults)

    least, largest = ("more than", "less than") if order.strict else ("at least", "at most")
    assert order.high in Config.model_fields  # so the user can always obey
    assert problem(order.high) == [
        f"key.of.{order.high} = 2.0 (-c) must be {least} 9, the value of {order.low} (default){order.why}"
    ]
    if order.low in Config.model_fields:
        assert problem(order.low) == [
            f"key.of.{order.low} = 9.0 (-c) must be {largest} 2, the value of {order.high} (default){order.why}"
        ]
        assert problem(order.low, order.high) == [
            f"key.of.{order.high} = 2.0 (-c) must be {least} 9, the value of key.of.{order.low} (-c){order.why}"
        ]
