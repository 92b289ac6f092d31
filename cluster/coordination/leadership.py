"""Leadership: one of several daemons leads, and what a former leader writes is refused.

    /leader           the version is the term: one more with each leader; the value: who leads
    /leader/holder    ephemeral: there while the leader's session is

    campaign ─► [Create /leader/holder, Put /leader] ─► Term(n) ─► commit([Check /leader n, …]) …
                      │ NodeExistsError: another one leads: wait until /leader changes
                      ╰─ and try again

1. A leader whose session has ended does not know it at once (it was stopped, or cut off). All that it writes has a
   Check of its term. Once another one leads, the term is another, and nothing of it happens: DeposedError.
2. Whether a commit happened of which no answer came is not known. So a candidate that finds the holder's node looks
   whether it is of its own session: then it leads already.
3. While no daemon reaches the store, none can lead: the leader waits, and decides nothing.

Departs from ZooKeeper's recipe: candidates make no sequential nodes. Two or three daemons are woken by each change of
leader, not hundreds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from .operations import (
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    Put,
    RefusedError,
)

if TYPE_CHECKING:
    from .coordination import Coordination

LEADER: Final = "/leader"
HOLDER: Final = "/leader/holder"


class DeposedError(CoordinationError):
    """Another one leads: nothing was written."""


class Term:
    """A time in which this client leads. `number` is greater than that of each earlier term."""

    __slots__ = ("_coordination", "number")

    def __init__(self, coordination: Coordination, number: int) -> None:
        self._coordination = coordination
        self.number = number

    async def commit(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """As `Coordination.commit`, if this client still leads: else DeposedError, and nothing happens."""
        try:
            versions = await self._coordination.commit([Check(LEADER, self.number), *operations])
        except (BadVersionError, NoNodeError) as error:
            if error.path == LEADER:
                raise DeposedError(f"term {self.number} is over: another one leads") from error
            raise
        return versions[1:]

    async def over(self) -> None:
        """Wait until this client does not lead any more."""
        coordination = self._coordination
        watch = await coordination.watch(LEADER)
        try:
            while coordination.status != "lost":
                if coordination.status == "connected":
                    with contextlib.suppress(CoordinationError):  # not reached, or lost: the status says it
                        node = await coordination.get(LEADER)
                        if node is None or node.version != self.number or await coordination.get(HOLDER) is None:
                            return
                await watch.changed()
        finally:
            watch.close()

    async def resign(self) -> None:
        """Let another one lead, at once."""
        with contextlib.suppress(DeposedError, RefusedError):
            await self.commit([Delete(HOLDER)])


async def campaign(coordination: Coordination, who: bytes) -> Term:
    """Wait until this client leads. `who`: the value of the node, for those who look for the leader.

    UnavailableError, SessionLostError.
    """
    with contextlib.suppress(NodeExistsError):
        await coordination.commit([Create(LEADER)])
    watch = await coordination.watch(LEADER)
    try:
        while True:
            try:
                versions = await coordination.commit([Create(HOLDER, who, ephemeral=True), Put(LEADER, who)])
            except NodeExistsError:
                if (term := await _own_term(coordination)) is not None:
                    return term
                await watch.changed()
            else:
                return Term(coordination, versions[1])
    finally:
        watch.close()


async def _own_term(coordination: Coordination) -> Term | None:
    """The term in which this client leads already; None: another one leads, or none."""
    holder, leads = await coordination.get(HOLDER), await coordination.get(LEADER)
    if holder is None or leads is None or holder.session != coordination.session:
        return None
    return Term(coordination, leads.version)


async def leader(coordination: Coordination) -> bytes | None:
    """Who leads; None: there is no leader now. UnavailableError, SessionLostError."""
    node = await coordination.get(HOLDER)
    return None if node is None else node.value
