"""What is too large to be sent is refused before it is copied, with the name of its field."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiostorm.topology import Fields, Origin
from aiostorm.transport import UnsendableError, pack_value, values
from aiostorm.transport.scan import MAX_ITEMS
from aiostorm.transport.segments import split_items

SIZE = 1 << 26
ORIGIN = Origin("bolt", 3, "default", Fields("name", "picture"))

LARGE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: bytes(SIZE),
    "str": lambda: " " * SIZE,
    "bytearray": lambda: bytearray(SIZE),
    "an array": lambda: np.zeros(SIZE, np.uint8),
    "in a list": lambda: [1, bytes(SIZE)],
    "in a tuple of texts": lambda: ("a", " " * SIZE),
    "in a dict": lambda: {"a": 1, "b": bytes(SIZE)},
    "in a dict of a list": lambda: {"a": [None, {"b": bytearray(SIZE)}]},
    "a long list": lambda: [0] * (SIZE // 64),
}


@pytest.fixture
def _copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """msgpack is given nothing that is large."""
    real = values._packer

    class Packer:
        """As msgpack's."""

        def pack(self, value: Any) -> bytes:
            packed: bytes = real.pack(value)
            assert len(packed) < 1_000_000
            return packed

    monkeypatch.setattr(values, "_packer", Packer())


@pytest.mark.usefixtures("_copies_nothing")
@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_row_with_a_large_value_is_refused_before_it_is_copied(kind: str, rows: int) -> None:
    large = LARGE[kind]()
    items = [*[("a", b"small"), ("b", None)][: rows - 1], ("c", large)]
    began_s = time.process_time()
    with pytest.raises(UnsendableError) as refused:
        split_items(ORIGIN, items)
    assert time.process_time() - began_s < 0.5
    assert "'picture'" in str(refused.value)
    assert "bolt" in str(refused.value)
    assert refused.value.offset == rows - 1


@pytest.mark.parametrize("kind", LARGE)
def test_so_is_a_message(kind: str) -> None:
    with pytest.raises(UnsendableError, match="send it in parts"):
        pack_value(LARGE[kind]())


def test_what_goes_in_pieces_may_be_larger() -> None:
    large = {"rows": list(range(MAX_ITEMS + 1)), "text": "a" * 3_000_000}
    assert len(pack_value(large, 10 * MAX_ITEMS)) > 3_000_000
    with pytest.raises(UnsendableError):
        pack_value(large)
