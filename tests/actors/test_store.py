"""The store's seam: names."""

from __future__ import annotations

import pytest

from aiostorm.actors import check_blob_name


@pytest.mark.parametrize("name", ["a", "A-1_b.c", ".", "..", "...", "x" * 128, "con", "snapshot.0000001"])
def test_names(name: str) -> None:
    assert check_blob_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 129, "a/b", "../a", "a\\b", "a b", "a\n", "a\0", "ä", "a:b", "/", "~", "%2e", "a*"]
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="no slash"):
        check_blob_name(name)
