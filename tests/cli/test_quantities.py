"""Sizes and times on the command line."""

from __future__ import annotations

import click
import pytest

from aiostorm.cli.quantities import duration, size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("4096", 4096), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("2kib", 2048), ("1TiB", 1 << 40)],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("7d", 604_800), ("1.5h", 5400), ("2m", 120), ("3 s", 3)]
)
def test_times(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "12 parsecs", "1MB", "9" * 20, "٣"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no size: give bytes"):
        size(text)
    with pytest.raises(click.BadParameter, match="is no time: give seconds"):
        duration(text)
