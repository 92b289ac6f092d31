"""ActorFactory: makes the instances of one actor, from an instance, a class or a factory function."""

# pyright: reportPrivateUsage=false
# (`Actor._cell`: with an underscore, since actors of users inherit it)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .actor import NO_CELL, Actor

if TYPE_CHECKING:
    from .cell import Cell


class ActorFactory:
    """Makes the incarnations of one cell. An instance can be used by one cell at a time: its state is not shared."""

    __slots__ = ("_cell", "_factory", "_instance")

    _factory: Callable[[], object]

    def __init__(self, cell: Cell, actor: Actor | Callable[[], Actor]) -> None:
        _check(actor)
        self._cell = cell
        self._instance = actor if isinstance(actor, Actor) else None
        if isinstance(actor, Actor):
            self._claim(actor)
        else:
            self._factory = actor

    def make(self) -> Actor:
        """Make the next incarnation. Raises what the factory raises; TypeError if the result is not an actor."""
        if self._instance is not None:
            return self._instance
        made = self._factory()
        if not isinstance(made, Actor):
            raise TypeError(
                f"{self._cell.path}: spawn takes an Actor, its class or a factory; {self._factory!r} made {made!r}"
            )
        self._claim(made)
        return made

    def _claim(self, actor: Actor) -> None:
        owner = actor._cell  # (not through __dict__: that would make every attribute access of the actor slower)
        if owner is not NO_CELL and owner is not self._cell and not owner.termination.ended.done():
            raise ValueError(f"{actor!r} already runs as {owner.path}: spawn a class or a factory to have several")
        actor._cell = self._cell


def _check(actor: object) -> None:
    if not callable(actor) and not isinstance(actor, Actor):
        raise TypeError(f"spawn takes an Actor, its class or a factory, not {actor!r}")


def base_name(actor: Actor | Callable[[], Actor]) -> str:
    """The base of a child's generated name: its class or factory, in lower case."""
    named = type(actor) if isinstance(actor, Actor) else actor
    return str(getattr(named, "__name__", type(named).__name__)).strip("<>").lower()
