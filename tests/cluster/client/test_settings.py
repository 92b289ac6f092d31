"""Settings of a submission: the record holds what was set, and gives the same settings back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config, ConfigError
from aiostorm.cluster.client.settings import recorded

SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "max_spout_pending": st.none() | st.integers(1, 10**6),
        "topology.message.timeout.secs": st.floats(0.1, 1e6),
        "debug": st.booleans(),
        "auto_task_hooks": st.lists(st.sampled_from(["a.b:C", "d:E"]), max_size=3),
        "restart_backoff_s": st.lists(st.floats(0, 100), min_size=1, max_size=3),
        "guarantee": st.sampled_from(["at-least-once", "at-most-once"]),
        "my.key": st.none() | st.integers() | st.text(),
    },
)


@given(SETTINGS)
def test_the_same_settings_come_back(given_settings: dict[str, object]) -> None:
    config = Config(**given_settings)
    found = recorded(config)
    assert Config(**found) == config
    assert all(value is None or isinstance(value, str | int | float | bool) for value in found.values())
    assert found == recorded(given_settings)


def test_keys_are_storms() -> None:
    """A parent's own default for the folder of snapshots has this key: two spellings would be given twice."""
    assert recorded(Config(state_dir="/s", guarantee="exactly-once")) == {
        "topology.guarantee": "exactly-once",
        "topology.state.dir": "/s",
    }
    assert recorded(None) == {}


@pytest.mark.parametrize("value", [{"a": 1}, ["a,b"], [["a"]]])
def test_what_is_no_scalar(value: object) -> None:
    with pytest.raises(ConfigError, match=r"my\.key: .* cannot be given when a topology is submitted"):
        recorded({"my.key": value})
    with pytest.raises(ConfigError, match="no such setting; did you mean"):
        recorded({"topology.max.spout.pendin": 1})
