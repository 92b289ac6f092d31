"""Exports: the actors of this process that others may reach.

1. An actor is for others if it was offered under a name, or if a ref to it was sent in a message. Nothing else is: no
   path, no guess leads to it. A name may be for some peers only: then no other finds it, nor a ref that names it.
2. What was sent has a random number, which nobody who was not given it knows. It is valid until the actor's end.
3. A name is free again once its actor has ended, or it was withdrawn. Who has the name in a ref reaches whoever has it
   now.

From: Erlang's registered names and pids; capabilities.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...actors import DeathWatch, Ref, Terminated
from ...runtime import Rng
from ..errors import NotHereError
from .notes import MAX_NAME_BYTES


class Exports:
    """Names and numbers of actors."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._named: dict[str, Ref] = {}
        self._only: dict[str, frozenset[str]] = {}  # names that are for these peers
        self._numbered: dict[int, Ref] = {}
        self._numbers: dict[Ref, int] = {}

    def offer(self, name: str, ref: Ref, to: Iterable[str] | None = None) -> None:
        """Let others (`to`: these peers) reach it by that name.

        ValueError if another living actor has the name; NotHereError if it is not an actor of this process.
        """
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise ValueError(f"the name of an actor has 1 to {MAX_NAME_BYTES} bytes, not {len(name.encode())}")
        if type(ref) is not Ref:
            raise NotHereError(f"{ref!r} is an actor of another process: that is where it is offered")
        known = self._named.get(name)
        if known is not None and known is not ref and known.is_alive:
            raise ValueError(f"{known.path} is offered as {name!r} already: withdraw it before")
        self._named[name] = ref
        if to is None:
            self._only.pop(name, None)
        else:
            self._only[name] = frozenset(to)

    def withdraw(self, name: str) -> None:
        """From now on nobody finds it by that name. Who has a channel to the actor keeps it."""
        self._named.pop(name, None)
        self._only.pop(name, None)

    def number_of(self, ref: Ref) -> int:
        """By which whoever gets this ref reaches it."""
        number = self._numbers.get(ref)
        if number is None:
            number = int.from_bytes(self._rng.token_bytes(8), "big")
            if ref.is_alive:
                self._numbers[ref] = number
                self._numbered[number] = ref
                DeathWatch(ref, self).watch(ref.deathwatch)
        return number

    def find_for(self, key: str | int, peer: str = "") -> Ref | None:
        """As `find`, for that peer; empty: for whoever may be behind it."""
        if isinstance(key, str) and peer not in self._only.get(key, (peer,)):
            return None
        return self.find(key)

    def find(self, key: str | int) -> Ref | None:
        """The living actor of that name or number, for this process."""
        ref = self._named.get(key) if isinstance(key, str) else self._numbered.get(key)
        return ref if ref is not None and ref.is_alive else None

    def post(self, item: Terminated) -> None:
        """An Watcher: an actor has ended."""
        number = self._numbers.pop(item.ref, None)
        if number is not None:
            del self._numbered[number]
