"""Scan: is this sound msgpack, not too deep, with not too many values? Checked before decoding.

1. It allocates only the stack of open containers: at most `max_depth`, and an extension for each.
2. It accepts exactly one complete value without further bytes: lengths fit, extension types are in the table. So
   decoding allocates no more than the bytes contain: an array that claims 4 billion items has them, or is refused here.
3. Extensions that contain values (extensions.NESTED) are scanned, too, and count like their values.

Why: 1 MiB of nested empty arrays is a hundred times as large as Python objects, and deep nesting overflows C stacks.
"""

from __future__ import annotations

from typing import Final

from ..errors import UnreadableError
from .extensions import COSTS, KNOWN, NESTED

MAX_DEPTH: Final = 32
"""How deep containers may be nested in one value."""

MAX_ITEMS: Final = 250_000
"""How many values one value may consist of. A map counts as two, an extension as more (extensions.COSTS), by the
cost of decoding."""

CHECKED_BYTES: Final = MAX_ITEMS // 3
"""Shorter bytes cannot exceed the limit: no extension counts more than three for each of its bytes."""


def scan(data: bytes | memoryview, max_depth: int = MAX_DEPTH, max_items: int = MAX_ITEMS) -> int:
    """The number of values (see MAX_ITEMS). UnreadableError if this is not exactly one value within the limits."""
    size = len(data)
    steps = _STEPS
    at, left, end, depth, items = 0, 1, 0, 0, 1
    outer: list[tuple[int, int, int]] = []
    try:
        while True:
            while left:
                left -= 1
                head = data[at]
                step = steps[head]
                if step > 0:
                    at += step
                    continue
                if step == _SHORT:
                    at += 2 + data[at + 1]
                    continue
                if 0x90 <= head < 0xA0:  # a short array
                    at, count, inner_end = at + 1, head & 15, 0
                else:
                    at, count, inner_end, cost = _open(data, at, head)
                    items += cost
                    if items > max_items:
                        raise UnreadableError(f"a value of more than {max_items} values")
                    if count < 0:
                        continue
                if count > size - at:
                    raise UnreadableError(f"a container of {count} values in the last {size - at} bytes")
                outer.append((left, end, depth))
                left, end = count, inner_end
                if not inner_end:
                    items += count
                    depth += 1
                    if depth > max_depth:
                        raise UnreadableError(f"a value is nested more than {max_depth} deep")
                    if items > max_items:
                        raise UnreadableError(f"a value of more than {max_items} values")
            if not outer:
                break
            if end and at != end:
                raise UnreadableError("an extension holds more or less than one value")
            left, end, depth = outer.pop()
    except IndexError:
        raise UnreadableError(f"a value of {size} bytes is cut short") from None
    if at != size:
        raise UnreadableError(f"a value of {size} bytes ends after {at}" if at < size else "a value is cut short")
    return items


def _open(data: bytes | memoryview, at: int, head: int) -> tuple[int, int, int, int]:
    """For a value without a fixed size: the next position, values inside or -1, end of an extension or 0, cost."""
    if head < 0x90:
        return at + 1, 2 * (head & 15), 0, 1
    if head >= 0xDC:
        width = 2 if head in (0xDC, 0xDE) else 4
        count = int.from_bytes(data[at + 1 : at + 1 + width], "big")
        return (at + 1 + width, count, 0, 0) if head < 0xDE else (at + 1 + width, 2 * count, 0, 1)
    width = _WIDTHS[head]
    if not width:
        raise UnreadableError(f"byte {head:#x} begins no value")
    if head in _TEXTS:
        return at + 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "big"), -1, 0, 0
    if head >= 0xD4:
        size, at = 1 << (head - 0xD4), at + 1
    else:
        size, at = int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width
    code = data[at]
    if code not in KNOWN:
        raise UnreadableError(f"extension type {code - 256 if code > 127 else code} is not of the table")
    at += 1
    if code not in NESTED:
        return at + size, -1, 0, COSTS[code]
    if not (0x90 <= data[at] <= 0x9F or 0xDC <= data[at] <= 0xDD):  # an array, so that each has its own depth
        raise UnreadableError(f"extension type {code} holds no array")
    return at, 1, at + size, COSTS[code]


def _steps() -> tuple[int, ...]:
    """The size of a value by its first byte. 0: it contains its size, or other values; _SHORT: its size is one byte."""
    steps = [0] * 256
    for head in (*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3):
        steps[head] = 1
    for head in range(0xA0, 0xC0):
        steps[head] = 1 + (head & 31)
    for head, size in ((0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)):
        steps[head] = 1 + size
    for head, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8)):
        steps[head] = 1 + size
    steps[0xC4] = steps[0xD9] = _SHORT
    return tuple(steps)


_SHORT: Final = -1
_STEPS: Final = _steps()
_TEXTS: Final = frozenset({0xC5, 0xC6, 0xDA, 0xDB})
# How wide the length is, where there is one (a fixext has none: its type is as good as one).
_LENGTHS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_WIDTHS: Final = tuple(_LENGTHS.get(head, int(0xD4 <= head <= 0xD8)) for head in range(256))
