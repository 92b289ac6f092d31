"""Links: all links of one process.

    async with Links("worker-1", network, on_payload=…) as links:
        await links.listen("host:6700")
        link = links.open("worker-2", "host:6701")
        await link.send(payload)

1. Each process has a name, and each of its links is to another name. One of the two dials the other's address.
2. Incoming connections are identified first (see pending connections). Only a peer with a link that is dialled by the
   peer is accepted.
3. All links of a process have one incarnation, a random number that differs for each start of the process. A link that
   was closed and is opened again has a new incarnation: this side has forgotten its state, and the peer must know.
4. Leaving the block closes the links, each of which drains within its limit; after an exception they end at once.
5. If a link fails, only that link ends, and `on_failed` is called; without `on_failed`, the failure ends the block.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from ...runtime import Clock, LoopClock, Rng, SystemRng
from ..errors import NetworkError
from ..net.limited_warnings import LimitedWarnings
from .link import Link, LinkSetup
from .pending_connections import PendingConnections
from .sequence import LinkSequence, PeerStarted, SequenceLimits
from .timings import LinkContext, LinkTimings

if TYPE_CHECKING:
    from ..net.network import Connection, Listener, Network
    from .send_queue import PayloadSource

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def _ignore(peer: str, *found: object) -> None:
    """The default of `on_peer` and `on_pulse`."""


@dataclass(frozen=True, slots=True)
class _Handlers:
    """What is called for a peer."""

    on_payload: Callable[[str, bytes], None]
    on_peer: Callable[[str, PeerStarted], None]
    on_failed: Callable[[str, Exception], None] | None


class Links:
    """The links of one process. `on_payload(peer, payload)` and `on_peer(peer, started)` do not wait.

    `on_pulse(peer, process, note)` is called for each PULSE (see pending connections).
    """

    def __init__(
        self,
        name: str,
        network: Network,
        *,
        on_payload: Callable[[str, bytes], None],
        on_peer: Callable[[str, PeerStarted], None] = _ignore,
        on_pulse: Callable[[str, int, bytes], None] = _ignore,
        on_failed: Callable[[str, Exception], None] | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        timings: LinkTimings | None = None,
        limits: SequenceLimits | None = None,
    ) -> None:
        self.name = _checked(name)
        self._network = network
        self._handlers = _Handlers(on_payload, on_peer, on_failed)
        self._rng = rng or SystemRng()
        clock = clock or LoopClock()
        self._context = LinkContext(clock, self._rng.generator(), timings or LinkTimings(), LimitedWarnings(clock))
        self._limits = limits
        self.incarnation = self._new_incarnation()
        self._group = asyncio.TaskGroup()
        self._links: dict[str, Link] = {}
        self._opened: set[str] = set()
        self._listener: Listener | None = None
        self._pending = PendingConnections(name, self._group, self._context, self._assign, on_pulse)

    async def listen(self, address: str) -> str:
        """Listen at an address, which is returned with its real port. NetworkError if it is taken."""
        if self._listener is not None:
            raise NetworkError(f"{self.name} listens already, at {self._listener.address}")
        self._listener = await self._network.listen(address, self._pending.accept)
        return self._listener.address

    def open(self, peer: str, address: str | None, *, source: PayloadSource | None = None, role: str = "") -> Link:
        """Open the link to a peer. `address`: where the peer listens; None: the peer dials. ValueError if it has one.

        `role`: the role that the peer must be authenticated for; empty: any.
        """
        before = self._links.get(peer)
        if _checked(peer) == self.name or (before is not None and not before.over):
            raise ValueError(f"{self.name} has a link to {peer} already, or has that name itself")
        sequence = LinkSequence(
            self._incarnation_for(peer),
            greeting=self.name.encode(),
            expected_greeting=peer.encode(),
            limits=self._limits,
            source=source,
        )
        setup = LinkSetup(
            sequence=sequence,
            dial=None if address is None else partial(self._network.connect, address),
            context=self._context,
            on_payload=partial(self._handlers.on_payload, peer),
            on_peer=partial(self._handlers.on_peer, peer),
            role=role,
        )
        link = self._links[peer] = Link(peer, setup)
        self._group.create_task(self._run(link), name=f"link {self.name} to {peer}")
        return link

    def redial(self, peer: str, address: str) -> None:
        """A peer listens again, at this address: dial it now."""
        link = self._links.get(peer)
        if link is not None:
            link.redial(partial(self._network.connect, address))

    def _incarnation_for(self, peer: str) -> int:
        if peer not in self._opened:
            self._opened.add(peer)
            return self.incarnation
        return self._new_incarnation()

    def _new_incarnation(self) -> int:
        return int.from_bytes(self._rng.token_bytes(8), "big") or 1

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                async with asyncio.TaskGroup() as closing:
                    for link in self._links.values():
                        closing.create_task(link.close(), name=f"link {self.name} to {link.peer}: close")
        except BaseException as failure:
            self._close_now()
            await self._group.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        self._close_now()
        await self._group.__aexit__(kind, error, traceback)

    def _close_now(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._pending.close()
        for link in self._links.values():
            link.abort()

    async def _run(self, link: Link) -> None:
        on_failed = self._handlers.on_failed
        failure: Exception | None = None
        try:
            await link.run()
        except Exception as error:
            if on_failed is None:
                raise
            failure = _first(error)
        finally:
            current = self._links.get(link.peer) is link
            if current:
                del self._links[link.peer]  # another one may be opened now
        if failure is not None and on_failed is not None and current:  # otherwise another one was opened already
            on_failed(link.peer, failure)

    def _assign(self, name: str, connection: Connection, hello: bytes) -> bool:
        link = self._links.get(name)
        if link is None or link.dials:
            return False
        link.accept(connection, hello)
        return True


def _first(error: Exception) -> Exception:
    """The first of several errors at once: a link has three asyncio tasks."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"a name is 1 to 128 of A-Z a-z 0-9 _ . -, not {name[:140]!r}")
    return name
