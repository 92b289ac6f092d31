"""NodeRouter: what workers and their parent need of the process's Node. Tests use one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from ..transport import PeerRouter

if TYPE_CHECKING:
    from ..actors import Ref
    from ..transport import PayloadKind


class NodeRouter(PeerRouter, Protocol):
    """Links to other processes, and refs to their actors."""

    def handle(
        self, kind: PayloadKind, handler: Callable[[str, int, memoryview], None], *, replace: bool = False
    ) -> None:
        """As of a PeerRouter. `replace`: take the place of the handler that the kind has."""
        ...

    @property
    def name(self) -> str:
        """The name of this process."""
        ...

    async def listen(self, address: str) -> str:
        """Listen at an address, which is returned with its real port."""
        ...

    def offer(self, name: str, ref: Ref, *, to: Iterable[str] | None = None) -> None:
        """Offer an actor to other processes (`to`: to these peers only) under a name."""
        ...

    def ref(self, node: str, name: str) -> Ref:
        """An actor that another process offers under a name."""
        ...

    def link(self, peer: str, address: str | None) -> object:
        """Open a link to a peer: dial its address, or (None) wait until it dials."""
        ...

    def lose(self, peer: str, reason: str) -> None:
        """Close the link at once. It may be opened again, with a new incarnation of this side."""
        ...

    def redial(self, peer: str, address: str) -> None:
        """A peer listens again, at this address: dial it now."""
        ...
