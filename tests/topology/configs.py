"""Helpers of the configuration tests."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.topology import Config, ConfigError


def load(**layers: Any) -> Config:
    """`Config.load` that does not see the environment of the test run."""
    return Config.load(**{"env": {}, **layers})


def mistakes(action: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        action()
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    return tuple(caught.value.problems)
