"""Numbers: lists of integers as bytes, without a loop. Little-endian, as most machines have them.

pack_numbers([1, 2]) ─▶ 8 bytes each          pack_pairs([(root, xor), …]) ─▶ 16 bytes each
pack_small([0, 0, 1]) ─▶ 1, 2 or 4 bytes each, as the largest needs
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from ..errors import UnreadableError

Bytes = bytes | memoryview

_SWAP: Final = sys.byteorder == "big"
_WIDTHS: Final = {1: "B", 2: "H", 4: "I"}


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """Encode numbers in 8 bytes each. OverflowError outside of 0 to 2**64 - 1."""
    packed = array("Q", numbers)
    if _SWAP:
        packed.byteswap()
    return packed.tobytes()


def unpack_numbers(data: Bytes) -> list[int]:
    """Decode numbers of 8 bytes. UnreadableError for another length."""
    if len(data) % 8:
        raise UnreadableError(f"numbers of 8 bytes in {len(data)} bytes")
    return _from_bytes("Q", data)


def pack_pairs(pairs: Iterable[tuple[int, int]]) -> bytes:
    """Encode pairs in 16 bytes each."""
    return pack_numbers(chain.from_iterable(pairs))


def unpack_pairs(data: Bytes) -> list[tuple[int, int]]:
    """Decode pairs of numbers. UnreadableError for another length."""
    if len(data) % 16:
        raise UnreadableError(f"pairs of 16 bytes in {len(data)} bytes")
    numbers = _from_bytes("Q", data)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def pack_small(numbers: Sequence[int]) -> bytes:
    """Encode numbers in 1, 2 or 4 bytes each. OverflowError outside of 0 to 2**32 - 1."""
    try:
        return bytes(numbers)  # the common case, and three times as fast
    except ValueError:
        packed = array("H" if max(numbers) < 65_536 else "I", numbers)
        if _SWAP:
            packed.byteswap()
        return packed.tobytes()


def unpack_small(data: Bytes, count: int) -> Sequence[int]:
    """Decode `count` numbers of pack_small; the number of bytes gives their width."""
    if len(data) == count:
        return bytes(data)  # bytes are a sequence of numbers already
    width, rest = divmod(len(data), count)
    if rest or width not in _WIDTHS:
        raise UnreadableError(f"{count} numbers in {len(data)} bytes")
    return _from_bytes(_WIDTHS[width], data)


def _from_bytes(code: str, data: Bytes) -> list[int]:
    numbers = array(code)
    numbers.frombytes(data)
    if _SWAP:
        numbers.byteswap()
    return numbers.tolist()
