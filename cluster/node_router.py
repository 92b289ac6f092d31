"""NodeRouter: what workers and their parent need of the process's Node. Tests give them one in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ..actors import Ref
from ..transport import PeerRouter


class NodeRouter(PeerRouter, Protocol):
    """Links to other processes, and refs to their actors."""

    @property
    def name(self) -> str:
        """This process's."""
        ...

    async def listen(self, address: str) -> str:
        """Let others dial this address. Returns where it is."""
        ...

    def offer(self, name: str, ref: Ref, *, to: Iterable[str] | None = None) -> None:
        """Let others (`to`: these peers) reach an actor by that name."""
        ...

    def ref(self, node: str, name: str) -> Ref:
        """An actor of another process, by the name under which it is offered there."""
        ...

    def link(self, peer: str, address: str | None) -> Any:
        """Have a link to that peer: dial it there, or (None) let it dial."""
        ...

    def redial(self, peer: str, address: str) -> None:
        """A peer that is dialled listens (again), there: dial it now."""
        ...
