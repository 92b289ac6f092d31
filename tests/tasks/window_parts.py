"""Bolts with windows of a second, over the rows of "orders"."""

from __future__ import annotations

from typing import Any

from aiostorm import BufferedWindowBolt, Fields, Spout, Tumbling, WindowedBolt

SECOND = Tumbling(1_000)


class Orders(Spout):
    outputs = Fields("user", "at", "amount")

    def next_tuple(self) -> None: ...


class Own(WindowedBolt):
    """In JStorm's way."""

    windows = SECOND
    key = "user"
    timestamp = "at"
    outputs = "sum"

    def init_state(self, window: Any) -> Any:
        return 0

    def execute(self, tup: Any, state: Any, window: Any) -> Any:
        return state + tup["amount"]

    def purge(self, state: Any, window: Any) -> Any:
        return (state,)


class Kept(BufferedWindowBolt):
    """In Storm's way."""

    windows = SECOND
    key = "user"
    timestamp = "at"
    outputs = "sum"

    def execute(self, window: Any) -> Any:
        return (sum(tup["amount"] for tup in window.get()),)


def own(**changed: Any) -> type[Any]:
    return type("Mine", (Own,), changed)


def kept(**changed: Any) -> type[Any]:
    return type("Mine", (Kept,), changed)
