"""Settings: their default values, and the least and greatest ones that are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import Config, ConfigError
from aiostorm.runtime import LIVENESS
from aiostorm.topology.config_keys import nearest

LIMITS: list[tuple[str, Any, tuple[Any, ...], tuple[Any, ...]]] = [
    ("max_spout_pending", None, (1,), (0,)),
    ("message_timeout_s", 30.0, (0.001,), (0,)),
    ("acker_executors", None, (0,), (-1,)),
    ("acker_tree_max_messages", 256, (1,), (0,)),
    ("max_retries", None, (0,), (-1,)),
    ("workers", 1, (1,), (0,)),
    ("mailbox_capacity_tuples", 1024, (1,), (0,)),
    ("mailbox_target_ms", 200.0, (0, 86400000), (-0.001, 86400001)),
    ("mailbox_high_mark", 0.8, (0.001, 1), (0, 1.001)),
    ("mailbox_low_mark", 0.2, (0, 0.999), (-0.001, 1)),
    ("turn_max_tuples", 256, (1,), (0,)),
    ("turn_max_ms", 10.0, (0.001,), (0,)),
    ("spout_wait_ms", 1.0, (0,), (-0.001,)),
    ("spout_wait_max_ms", 100.0, (0,), (-0.001,)),
    ("tick_tuple_freq_s", None, (0.001,), (0,)),
    ("stall_report_s", 1.0, (0,), (-0.001,)),
    ("trace_one_in", 16_384, (0, 1, 4_194_304), (-1, 4_194_305)),
    ("restart_max", 5, (0,), (-1,)),
    ("restart_period_s", 30.0, (0.001,), (0,)),
    ("graceful_stop_s", 10.0, (0,), (-0.001,)),
    ("max_task_parallelism", None, (1,), (0,)),
    ("routing_cache_keys", 65536, (1,), (0,)),
    ("watermark_lag_ms", 0, (0, 10**18), (-1, 10**18 + 1)),
    ("watermark_interval_ms", 1000, (1,), (0,)),
    ("watermark_max_advance_ms", 3600000, (0,), (-1,)),
    ("watermark_idle_timeout_ms", 60000, (0,), (-1,)),
    ("window_max_states", 1000000, (1,), (0,)),
    ("backpressure_high_mark", 0.8, (0.001, 1), (0, 1.001)),
    ("backpressure_low_mark", 0.05, (0, 0.999), (-0.001, 1)),
    ("backpressure_trigger_ratio", 0.1, (0.001, 1), (0, 1.001)),
    ("backpressure_check_interval_ms", 1000.0, (1,), (0.999,)),
    ("backpressure_sample_number", 4, (1, 1000), (0, 1001)),
    ("backpressure_sample_rate", 0.75, (0.001, 1), (0, 1.001)),
    ("state_dir", None, ("a",), ("",)),
    ("snapshot_interval_ms", 1000.0, (1,), (0.999, True)),
    ("snapshot_max_share", 0.03, (0.001, 1), (0, 1.001)),
    ("snapshot_timeout_ms", 60000.0, (0.001,), (0,)),
    ("snapshot_keep", 3, (1,), (0, True)),
    ("state_quota_mb", None, (1, 2**40), (0, True, 2**40 + 1)),
    ("snapshot_failures_max", 3, (1,), (0,)),
    ("sink_held_max_rows", 1_000_000, (1,), (0, True)),
    ("sink_held_max_bytes", 268_435_456, (1,), (0, True)),
]
"""A setting, its default value, values that are just allowed, and values that are just refused."""

NEIGHBOURS = {
    "mailbox_high_mark": {"mailbox_low_mark": 0},
    "mailbox_low_mark": {"mailbox_high_mark": 1},
    "backpressure_high_mark": {"backpressure_low_mark": 0},
    "backpressure_low_mark": {"backpressure_high_mark": 1},
}
"""Other settings that must fit."""


@pytest.mark.parametrize(("name", "default", "allowed", "refused"), LIMITS, ids=[name for name, *_ in LIMITS])
def test_a_setting_has_a_default_and_limits(
    name: str, default: Any, allowed: tuple[Any, ...], refused: tuple[Any, ...]
) -> None:
    assert Config().get(name) == default
    others = NEIGHBOURS.get(name, {})
    for value in allowed:
        assert Config(**{name: value, **others}).get(name) == value
    for value in refused:
        with pytest.raises(ConfigError, match=name):
            Config(**{name: value, **others})


def test_the_liveness_settings_are_those_of_the_configuration() -> None:
    liveness = Config(worker_start_timeout_s=77).liveness
    assert (liveness.worker_start_timeout_s, liveness.worker_timeout_s) == (77, LIVENESS.worker_timeout_s)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_spout_pendin", "max_spout_pending"),
        ("TOPOLOGY__WORKERS", "workers"),
        ("topology.workerz", "workers"),
        ("nothing like it", None),
    ],
)
def test_the_nearest_name(name: str, meant: str | None) -> None:
    assert nearest(name, ["workers", "worker_timeout_s", "max_spout_pending", "max_retries"]) == meant
