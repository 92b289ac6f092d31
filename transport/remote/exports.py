"""Exports: the actors of this process that others may reach.

1. Others may reach an actor that was offered under a name, or whose ref was sent in a message, and no other: there is
   no way by path or by guessing. A name may be for some peers only; then no other peer finds it, nor a ref that names
   it.
2. A ref that was sent has a random number, known only to those who received it. It is valid until the actor's end.
3. A name is free again once its actor has ended, or it was withdrawn. A ref by name leads to the actor that has the
   name now.

From: Erlang's registered names and pids; capabilities.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...actors import DeathWatch, MailboxClosedError, Ref, Terminated
from ..errors import NotHereError
from .notes import MAX_NAME_BYTES

if TYPE_CHECKING:
    from ...runtime import Rng


class NoSuchActorError(MailboxClosedError):
    """The other process has no such actor, or does not offer it. Offer it there: `node.offer(name, ref)`."""


class Exports:
    """The actors that others may reach, by name and by number."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._named: dict[str, Ref] = {}
        self._only: dict[str, frozenset[str]] = {}  # names for some peers only
        self._numbered: dict[int, Ref] = {}
        self._numbers: dict[Ref, int] = {}

    def offer(self, name: str, ref: Ref, to: Iterable[str] | None = None) -> None:
        """Offer an actor under a name, to all peers or to those in `to`.

        ValueError if another living actor has the name; NotHereError if it is not an actor of this process.
        """
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise ValueError(f"the name of an actor has 1 to {MAX_NAME_BYTES} bytes, not {len(name.encode())}")
        if type(ref) is not Ref:
            raise NotHereError(f"{ref!r} is an actor of another process: offer it there")
        known = self._named.get(name)
        if known is not None and known is not ref and known.is_alive:
            raise ValueError(f"{known.path} is offered as {name!r} already: withdraw that first")
        self._named[name] = ref
        if to is None:
            self._only.pop(name, None)
        else:
            self._only[name] = frozenset(to)

    def withdraw(self, name: str) -> None:
        """Remove a name. Channels that are open continue."""
        self._named.pop(name, None)
        self._only.pop(name, None)

    def number_of(self, ref: Ref) -> int:
        """The number of the actor in refs that are sent."""
        number = self._numbers.get(ref)
        if number is None:
            number = int.from_bytes(self._rng.token_bytes(8), "big")
            if ref.is_alive:
                self._numbers[ref] = number
                self._numbered[number] = ref
                DeathWatch(ref, self).watch(ref.deathwatch)
        return number

    def find_for(self, key: str | int, peer: str = "") -> Ref | None:
        """As `find`, for that peer; empty: any peer."""
        if isinstance(key, str) and peer not in self._only.get(key, (peer,)):
            return None
        return self.find(key)

    def find(self, key: str | int) -> Ref | None:
        """The living actor with that name or number."""
        ref = self._named.get(key) if isinstance(key, str) else self._numbered.get(key)
        return ref if ref is not None and ref.is_alive else None

    def post(self, item: Terminated) -> None:
        """An actor has ended. (Is a Watcher.)"""
        number = self._numbers.pop(item.ref, None)
        if number is not None:
            del self._numbered[number]
