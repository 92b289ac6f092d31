"""Settings: what follows from a topology's configuration."""

from __future__ import annotations

import pytest

from aiostorm import Config
from aiostorm.backpressure import Settings


def test_every_setting_is_that_of_the_configuration() -> None:
    config = Config(
        backpressure_enable=False,
        backpressure_high_mark=0.7,
        backpressure_low_mark=0.02,
        backpressure_trigger_ratio=0.3,
        backpressure_check_interval_ms=250,
        backpressure_sample_number=8,
        backpressure_sample_rate=0.6,
        mailbox_target_ms=100,
    )
    assert Settings.of(config) == Settings(
        enable=False, high=0.7, low=0.02, ratio=0.3, interval_s=0.25, samples=8, rate=0.6, target_s=0.1
    )
    assert Settings.of(Config()) == Settings()


def test_a_period_is_all_samples_and_a_lease_five_intervals_within_bounds() -> None:
    assert Settings(interval_s=0.25, samples=8).period_s == 2.0
    leases = [Settings(interval_s=interval_s).lease_s for interval_s in (0.01, 0.1, 0.2, 60.0, 17_280.0, 20_000.0)]
    assert leases == [0.5, 0.5, 1.0, 300.0, 86_400.0, 86_400.0]


@pytest.mark.parametrize(
    ("samples", "rate", "least"), [(4, 0.75, 4), (4, 0.5, 3), (4, 0.0, 1), (4, 1.0, 4), (10, 0.85, 9), (1, 1.0, 1)]
)
def test_enough_is_more_than_the_rate_or_all(samples: int, rate: float, least: int) -> None:
    settings = Settings(samples=samples, rate=rate)
    assert [settings.are_enough(count) for count in range(samples + 1)] == [n >= least for n in range(samples + 1)]
