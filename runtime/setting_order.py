"""Settings that depend on each other: which must not exceed which, and the value that mends a wrong one.

1. An error names a setting that the user has written, by the key that the user wrote, with the least or the largest
   value that it may have beside the other settings.
2. That value keeps all orders. If another setting must then change too, there is an error for each of them.
3. A setting that no user can change is never the one that must change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Order(NamedTuple):
    """`low` must not exceed `high`; if `strict`, it must be less."""

    low: str
    high: str
    why: str = ""
    """What would happen otherwise, for the error: ", or …"."""
    strict: bool = False

    def holds(self, values: Mapping[str, float]) -> bool:
        """Do these values keep it?"""
        low, high = values[self.low], values[self.high]
        return low < high if self.strict else low <= high


class Given(NamedTuple):
    """A setting as it was given."""

    key: str
    value: Any
    source: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value!r} ({self.source})"


def order_problems(
    values: Mapping[str, float], orders: Sequence[Order], written: Mapping[str, Given], defaults: Mapping[str, Given]
) -> list[str]:
    """The orders that `values` break, each setting that must change once.

    `written`: the settings that the user has set. `defaults`: how the others are called in an error. `orders` are
    sorted: an order that has a setting as its `high` comes before those that have it as their `low`.
    """
    values = dict(values)
    problems: dict[tuple[str, bool], str] = {}
    for order in orders:
        if order.holds(values):
            continue
        upwards = order.high in written or order.low not in written or not _can_fall(order, values, orders)
        name, other = (order.high, order.low) if upwards else (order.low, order.high)
        given = written.get(name) or defaults[name]
        limit = written.get(other) or defaults[other]
        least = "the least value" if (other, True) in problems else "the value"
        problems[name, upwards] = (
            f"{given} must be {_BOUNDS[upwards, order.strict]} {values[other]:.15g}, {least} of {limit.key}"
            f" ({limit.source}){order.why}"
        )
        values[name] = values[other]
    return list(problems.values())


_BOUNDS = {
    (True, False): "at least",
    (True, True): "more than",
    (False, False): "at most",
    (False, True): "less than",
}


def _can_fall(order: Order, values: Mapping[str, float], orders: Sequence[Order]) -> bool:
    """Whether the low one can have the value of the high one, given those that it must not be less than itself."""
    fallen = {**values, order.low: values[order.high]}
    return all(each.holds(fallen) for each in orders if each.high == order.low)
