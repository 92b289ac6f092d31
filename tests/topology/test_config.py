"""Config: names, limits, unknown keys, settings of one component."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import Config, component_config
from aiostorm.topology.config import PER_COMPONENT, field_keys

from .configs import load, mistakes

STORM_KEYS = {
    "max_spout_pending": ["topology.max.spout.pending"],
    "message_timeout_s": ["topology.message.timeout.secs"],
    "enable_message_timeouts": ["topology.enable.message.timeouts"],
    "acker_executors": ["topology.acker.executors", "topology.ackers"],
    "acker_tree_max_messages": ["topology.acker.tree.max.messages"],
    "max_retries": ["topology.max.retries"],
    "workers": ["topology.workers"],
    "mailbox_capacity_tuples": ["topology.mailbox.capacity", "topology.executor.receive.buffer.size"],
    "mailbox_target_ms": ["topology.mailbox.target.ms"],
    "mailbox_high_mark": ["topology.mailbox.water.mark.high"],
    "mailbox_low_mark": ["topology.mailbox.water.mark.low"],
    "turn_max_tuples": ["topology.turn.max.tuples"],
    "turn_max_ms": ["topology.turn.max.ms"],
    "spout_wait_ms": ["topology.sleep.spout.wait.strategy.time.ms"],
    "spout_wait_max_ms": ["topology.spout.wait.max.ms"],
    "tick_tuple_freq_s": ["topology.tick.tuple.freq.secs"],
    "auto_task_hooks": ["topology.auto.task.hooks"],
    "testing_always_try_serialize": ["topology.testing.always.try.serialize"],
    "debug": ["topology.debug"],
    "stall_report_s": ["topology.stall.report.secs"],
    "trace_one_in": ["topology.trace.one.in"],
    "trace_context": ["topology.trace.context"],
    "restart_max": ["topology.restart.max"],
    "restart_period_s": ["topology.restart.period.secs"],
    "restart_backoff_s": ["topology.restart.backoff.secs"],
    "graceful_stop_s": ["topology.graceful.stop.secs"],
    "max_task_parallelism": ["topology.max.task.parallelism"],
    "rebalance_auto": ["topology.rebalance.auto"],
    "isolate_machines": ["topology.isolate.machines"],
    "routing_cache_keys": ["topology.routing.cache.keys"],
    "watermark_lag_ms": ["topology.bolts.tuple.timestamp.max.lag.ms"],
    "watermark_interval_ms": ["topology.bolts.watermark.event.interval.ms"],
    "watermark_max_advance_ms": ["topology.bolts.watermark.max.advance.ms"],
    "watermark_idle_timeout_ms": ["topology.bolts.watermark.idle.timeout.ms"],
    "window_max_states": ["topology.bolts.window.max.states"],
    "backpressure_enable": ["topology.backpressure.enable"],
    "backpressure_high_mark": ["topology.backpressure.water.mark.high"],
    "backpressure_low_mark": ["topology.backpressure.water.mark.low"],
    "backpressure_trigger_ratio": ["topology.backpressure.coordinator.trigger.ratio"],
    "backpressure_check_interval_ms": ["topology.backpressure.check.interval"],
    "backpressure_sample_number": ["topology.backpressure.trigger.sample.number"],
    "backpressure_sample_rate": ["topology.backpressure.trigger.sample.rate"],
    "worker_timeout_s": ["supervisor.worker.timeout.secs", "topology.worker.timeout.secs"],
    "worker_start_timeout_s": ["supervisor.worker.start.timeout.secs"],
    "worker_monitor_s": ["supervisor.monitor.frequency.secs"],
    "worker_stop_timeout_s": ["topology.worker.stop.timeout.secs"],
    "worker_shutdown_s": ["supervisor.worker.shutdown.sleep.secs"],
    "worker_leave_timeout_s": ["topology.worker.leave.timeout.secs"],
    "worker_replace_timeout_s": ["topology.worker.replace.timeout.secs"],
    "worker_parent_timeout_s": ["topology.worker.parent.timeout.secs"],
    "worker_child_parent_timeout_s": ["topology.worker.child.parent.timeout.secs"],
    "guarantee": ["topology.guarantee"],
    "state_dir": ["topology.state.dir"],
    "snapshot_interval_ms": ["topology.snapshot.interval.ms", "topology.state.checkpoint.interval.ms"],
    "snapshot_max_share": ["topology.snapshot.max.share"],
    "snapshot_timeout_ms": ["topology.snapshot.timeout.ms"],
    "snapshot_keep": ["topology.snapshot.keep"],
    "state_quota_mb": ["topology.state.quota.mb"],
    "snapshot_failures_max": ["topology.snapshot.failures.max"],
    "sink_held_max_rows": ["topology.sink.held.max.rows"],
    "sink_held_max_bytes": ["topology.sink.held.max.bytes"],
    "state_on_error": ["topology.state.on.error"],
}
OTHER: dict[str, Any] = {
    "trace_context": True,
    "rebalance_auto": True,
    "isolate_machines": 2,
    "enable_message_timeouts": False,
    "debug": True,
    "auto_task_hooks": ("a.b:C",),
}
OTHER["testing_always_try_serialize"] = True
OTHER |= {"restart_backoff_s": (0.0, 3.0), "mailbox_high_mark": 0.7, "mailbox_low_mark": 0.1}
OTHER |= {"backpressure_enable": False, "backpressure_high_mark": 0.7, "backpressure_low_mark": 0.1}
OTHER |= {"backpressure_trigger_ratio": 0.5, "backpressure_sample_rate": 0.5}
OTHER |= {"worker_timeout_s": 7, "worker_start_timeout_s": 90, "worker_child_parent_timeout_s": 90}
OTHER |= {"guarantee": "exactly-once", "state_dir": "s3://state", "snapshot_max_share": 0.5, "state_on_error": "skip"}
OTHER |= {"snapshot_keep": 2, "state_quota_mb": 7, "snapshot_failures_max": 2}
OTHER |= {"sink_held_max_rows": 7, "sink_held_max_bytes": 7}
OTHER["acker_executors"] = 0  # the only number of ackers for every guarantee


def other_value(field: str) -> Any:
    """A value that is allowed and not the default."""
    return OTHER.get(field, 3)


# -- names and limits --------------------------------------------------------------------------------------------------


def test_every_field_has_its_keys_and_a_description() -> None:
    found: dict[str, list[str]] = {}
    for key, field in field_keys().items():
        found.setdefault(field, [])
        if key != field:
            found[field].append(key)
    assert found == STORM_KEYS
    for name, info in Config.model_fields.items():
        assert re.fullmatch(r"[A-Z].*\.", info.description or ""), name


@pytest.mark.parametrize("field", STORM_KEYS)
def test_each_name_of_a_field_sets_it(field: str) -> None:
    value = other_value(field)
    assert getattr(Config(), field) != value
    for key in [field, *STORM_KEYS[field]]:
        config = Config(**{key: value})
        assert getattr(config, field) == value
        assert config.get(field) == config.get(STORM_KEYS[field][0]) == value
        assert config.source_of(field) == config.source_of(key) == "keyword"
        assert config == Config(**{field: value}) != Config()


def test_the_defaults() -> None:
    config = Config()
    assert (config.max_spout_pending, config.message_timeout_s, config.workers) == (None, 30.0, 1)
    assert (config.mailbox_capacity_tuples, config.turn_max_tuples, config.acker_tree_max_messages) == (1024, 256, 256)
    assert config.restart_backoff_s == (0, 0.2, 1, 5)
    assert config.source_of("workers") == "default"
    with pytest.raises(KeyError, match="no setting 'wrkers'"):
        config.source_of("wrkers")


BAD: list[tuple[str, Any, str]] = [
    ("max_spout_pending", 0, "greater than or equal to 1"),
    ("message_timeout_s", 0, "greater than 0"),
    ("message_timeout_s", float("inf"), "finite"),
    ("message_timeout_s", "soon", "valid number"),
    ("acker_executors", -1, "greater than or equal to 0"),
    ("workers", 0, "greater than or equal to 1"),
    ("workers", 1.5, "integer"),
    ("workers", True, "not true or false"),
    ("tick_tuple_freq_s", True, "not true or false"),
    ("tick_tuple_freq_s", 0, "greater than 0"),
    ("debug", "perhaps", "boolean"),
    ("mailbox_high_mark", 1.1, "less than or equal to 1"),
    ("mailbox_low_mark", -0.1, "greater than or equal to 0"),
    ("restart_backoff_s", [], "at least 1 item"),
    ("restart_backoff_s", [1, -1], "greater than or equal to 0"),
    ("auto_task_hooks", [1], "string"),
    ("routing_cache_keys", 0, "greater than or equal to 1"),
    ("backpressure_high_mark", 1.1, "less than or equal to 1"),
    ("backpressure_trigger_ratio", 0, "greater than 0"),
    ("backpressure_check_interval_ms", 0, "greater than or equal to 1"),
    ("backpressure_sample_number", 0, "greater than or equal to 1"),
    ("backpressure_sample_rate", 2, "less than or equal to 1"),
    ("workers", [1], "integer"),
    ("guarantee", "exactly_once", "'at-least-once', 'exactly-once' or 'at-most-once'"),
    ("state_dir", 3, "string"),
    ("snapshot_interval_ms", 0, "greater than or equal to 1"),
    ("snapshot_max_share", 0, "greater than 0"),
    ("snapshot_timeout_ms", True, "not true or false"),
    ("snapshot_keep", 0, "greater than or equal to 1"),
    ("state_on_error", "ignore", "'rollback' or 'skip'"),
]


@pytest.mark.parametrize(("field", "value", "allowed"), BAD, ids=str)
def test_a_forbidden_value_is_an_error_with_key_value_source_and_allowed_values(
    field: str, value: Any, allowed: str
) -> None:
    key = STORM_KEYS[field][0]
    (problem,) = mistakes(lambda: Config(**{key: value}))
    assert problem.startswith(f"{key} = {value!r} (keyword): ")
    assert allowed in problem


def test_the_low_mark_is_below_the_high_mark_wherever_they_come_from() -> None:
    assert mistakes(lambda: Config(mailbox_low_mark=0.8)) == (
        "mailbox_low_mark = 0.8 (keyword) must be less than 0.8, the value of mailbox_high_mark (default)",
    )
    (problem,) = mistakes(lambda: load(base=Config(mailbox_low_mark=0.5), overrides=["mailbox_high_mark=0.4"]))
    assert problem == "mailbox_high_mark = 0.4 (-c) must be more than 0.5, the value of mailbox_low_mark (keyword)"
    assert mistakes(lambda: Config(backpressure_low_mark=0.9)) == (
        "backpressure_low_mark = 0.9 (keyword) must be less than 0.8, the value of backpressure_high_mark (default)",
    )


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-most-once"])
def test_only_at_least_once_has_ackers(guarantee: Any) -> None:
    (problem,) = mistakes(lambda: Config(guarantee=guarantee, acker_executors=2))
    assert problem == (
        f"acker_executors = 2 (keyword) cannot be together with guarantee = '{guarantee}' (keyword): only "
        f"at-least-once has ackers. Leave out acker_executors (or set it to null) for {guarantee}, or leave out "
        "guarantee for at-least-once"
    )
    (problem,) = mistakes(
        lambda: load(base=Config(**{"topology.ackers": 1}), overrides=[f"topology.guarantee={guarantee}"])
    )
    assert problem.startswith("acker_executors = 1 (keyword) cannot be together with topology.guarantee = ")
    assert load(base=Config(acker_executors=1), overrides=[f"guarantee={guarantee}", "acker_executors=null"])
    assert Config(guarantee=guarantee, acker_executors=0).guarantee == guarantee


def test_settings_that_a_running_topology_can_change() -> None:
    config = Config(workers=2, backpressure_low_mark=0.1)
    updated = config.updated({"topology.backpressure.enable": False, "backpressure_low_mark": 0.2})
    assert (updated.workers, updated.backpressure_enable, updated.backpressure_low_mark) == (2, False, 0.2)
    assert updated.source_of("backpressure_enable") == "update"
    assert config.updated(Config()) == config
    assert (
        config.updated(config.merge({"backpressure_enable": False})).backpressure_enable is False
    )  # workers is as it was
    problems = mistakes(lambda: config.updated({"workers": 3, "my.key": 1, "backpressure_enable": True}))
    assert [problem.split(":")[0] for problem in problems] == [
        "my.key cannot be changed while a topology runs; what can",
        "workers cannot be changed while a topology runs; what can",
    ]
    assert mistakes(lambda: config.updated({"backpressure_high_mark": 0.05})) == (
        "backpressure_high_mark = 0.05 (update) must be more than 0.1, the value of backpressure_low_mark (keyword)",
    )
    assert mistakes(lambda: config.updated({"topology.backpresure.enable": True}))[0].endswith(
        "did you mean topology.backpressure.enable?"
    )


def test_none_for_what_cannot_be_none_means_not_set() -> None:
    config = Config(**{"topology.workers": None, "topology.max.spout.pending": None, "topology.debug": None})
    assert config == Config()
    assert config.source_of("workers") == "default"
    assert config.source_of("max_spout_pending") == "keyword"
    assert Config(max_spout_pending=5).merge({"max_spout_pending": None}).max_spout_pending is None


def test_two_names_of_one_setting_must_agree() -> None:
    both = {"topology.mailbox.capacity": 5, "topology.executor.receive.buffer.size": 5}
    assert Config(**both).mailbox_capacity_tuples == 5
    (problem,) = mistakes(lambda: Config(**{**both, "mailbox_capacity_tuples": 6}))
    assert "one setting, given twice" in problem


# -- unknown, ignored, the user's own ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("topology.max.spout.pendin", "topology.max.spout.pending"),
        ("topology.message.timeout.seconds", "topology.message.timeout.secs"),
        ("topology.workers.", "topology.workers"),
        ("topology.mailbox.capcity", "topology.mailbox.capacity"),
        ("max_spout_pendig", "max_spout_pending"),
        ("maxSpoutPending", "max_spout_pending"),
        ("topology_workers", "workers"),
        ("acker_executor", "acker_executors"),
    ],
)
def test_a_misspelt_key_is_an_error_that_names_the_nearest(key: str, meant: str) -> None:
    (problem,) = mistakes(lambda: Config(**{key: 3}))
    assert problem.startswith(f"{key} (keyword): no such setting; did you mean {meant}?")


def test_an_unknown_topology_key_without_a_similar_one_is_an_error() -> None:
    assert mistakes(lambda: Config(**{"topology.qqqq": 3})) == ("topology.qqqq (keyword): no such setting",)


IGNORED = [
    "topology.worker.childopts",
    "topology.kryo.register",
    "topology.skip.missing.kryo.registrations",
    "topology.metrics.consumer.register",
    "topology.disruptor.wait.strategy",
    "topology.spread.components",
    "topology.backpressure.check.millis",
    "topology.backpressure.wait.strategy",
    "topology.name",
    "topology.tick.tuple.freq.ms",
    "storm.zookeeper.servers",
    "nimbus.seeds",
    "supervisor.slots.ports",
    "ui.port",
    "drpc.port",
    "worker.childopts",
    "worker.memory.size",
    "zmq.threads",
    "java.library.path",
    "task.heartbeat.frequency.secs",
]


def test_storm_keys_without_effect_are_accepted_and_listed() -> None:
    config = Config(**dict.fromkeys(IGNORED, "x"), **{"my.key": 1})
    assert config.ignored == tuple(sorted(IGNORED))
    assert dict(config.user) == {"my.key": 1}
    assert config.get("storm.zookeeper.servers") == "x"


def test_other_keys_are_the_users_own() -> None:
    config = Config(**{"my.key": [1], "kafka-topic": "t", "redis_url": "r", "tasks.of": 3})
    assert dict(config.user) == {"my.key": [1], "kafka-topic": "t", "redis_url": "r", "tasks.of": 3}
    assert (config.get("my.key"), config.get("none"), config.get("none", 3)) == ([1], None, 3)
    assert config.source_of("my.key") == "keyword"
    assert config.ignored == ()
    assert config != Config()
    assert config.merge({"my.key": 2}).get("my.key") == 2


# -- per component -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", STORM_KEYS)
def test_a_component_has_the_settings_that_make_sense_for_one(field: str) -> None:
    base = Config(workers=2)
    for key in [field, *STORM_KEYS[field]]:
        if field in PER_COMPONENT:
            assert getattr(component_config(base, {key: other_value(field)}), field) == other_value(field)
        else:
            (problem,) = mistakes(lambda key=key: component_config(base, {key: other_value(field)}))  # type: ignore[misc]
            assert problem == f"{key} is a setting of the whole topology; it cannot be set for one component"


def test_a_component_overrides_the_topology_and_says_so() -> None:
    base = Config(debug=True, workers=2)
    own = component_config(base, {"topology.max.spout.pending": 3, "my.key": 1})
    assert (own.max_spout_pending, own.debug, own.workers, own.get("my.key")) == (3, True, 2, 1)
    assert own.source_of("max_spout_pending") == "component"
    assert component_config(base, {}) is base
    assert mistakes(
        lambda: component_config(base, {"workers": 1, "turn_max_ms": 0, "topology.turn.max.tupels": 1})
    ) == (
        "workers is a setting of the whole topology; it cannot be set for one component",
        "topology.turn.max.tupels (component): no such setting; did you mean topology.turn.max.tuples?",
        "turn_max_ms = 0 (component): Input should be greater than 0",
    )


# -- the object --------------------------------------------------------------------------------------------------------


def test_a_config_does_not_change() -> None:
    config = Config(workers=2)
    with pytest.raises(Exception, match="frozen"):
        config.workers = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.user["a"] = 1  # type: ignore[index]


def test_copies_are_equal_and_sources_do_not_count() -> None:
    config = Config(workers=2, **{"my.key": [1]})
    assert copy.deepcopy(config) == copy.copy(config) == config
    assert copy.deepcopy(config).source_of("my.key") == "keyword"
    assert load(overrides=["workers=2"]) == Config(workers=2)
    assert len({Config(workers=2), load(overrides=["workers=2"]), Config()}) == 2
    assert Config() != 3
    assert Config.model_validate({"topology.workers": 3}).workers == 3


@given(st.dictionaries(st.sampled_from(sorted(STORM_KEYS)), st.booleans()), st.data())
def test_merging_is_overriding_field_by_field(which: dict[str, bool], data: st.DataObject) -> None:
    low = {field: other_value(field) for field in which}
    high = {field: getattr(Config(), field) for field, again in which.items() if again}
    if {"mailbox_high_mark", "mailbox_low_mark"} <= set(low) | set(high):
        high |= {"mailbox_high_mark": 0.9, "mailbox_low_mark": 0.3}
    merged = Config(**low).merge(Config(**high))
    for field in STORM_KEYS:
        assert getattr(merged, field) == high.get(field, low.get(field, getattr(Config(), field)))
