"""A module that another thread is importing is in `sys.modules` already, without the names that it will have."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pytest

from aiostorm.topology.tuples.columns import has_batches, is_batch
from aiostorm.transport import UnsendableError, pack_value
from aiostorm.transport.codec.sizes import size_of


@pytest.fixture(autouse=True)
def _under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy", "pyarrow", "pydantic"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


def test_sizes_and_batches_are_looked_for_without_it() -> None:
    assert size_of("four") == 4
    assert size_of(object()) == 0
    assert not is_batch("no batch")
    assert not has_batches(["no batch", 1])


def test_an_unsendable_value_is_still_refused_by_its_type() -> None:
    with pytest.raises(UnsendableError, match="object"):
        pack_value(object())


def test_batches_are_found_by_type_in_any_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = type("RecordBatch", (), {})
    monkeypatch.setattr(sys.modules["pyarrow"], "RecordBatch", batch, raising=False)
    assert has_batches([batch()])
    assert has_batches([1, batch()])
    assert not has_batches([1, "no batch"])
    assert not has_batches([1, 2])
    assert not has_batches([])


def test_without_pyarrow_no_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(list[object]):
        def __iter__(self) -> Iterator[object]:
            raise AssertionError("each value that is read costs a spout time")

    monkeypatch.delitem(sys.modules, "pyarrow")
    assert not has_batches(Unread([1, 2]))
