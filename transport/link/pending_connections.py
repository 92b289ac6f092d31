"""PendingConnections: incoming connections of which it is not known yet which link they belong to.

    accept ─► first frame ─┬─ HELLO of a peer that is expected to dial ─► its link
                           ├─ PULSE ─► on_pulse, for each PULSE until the connection ends
                           ╰─ any other frame, or none within `connect_s` ─► closed

1. The first HELLO of a connection contains the peer's name. On an authenticated connection it must be the name that was
   authenticated. At most MAX_PENDING connections are here at a time.
2. A PULSE is sent by a thread of a process whose event loop is blocked by user code, on a connection of its own. It
   means that the process is alive, and may have a note. It is not answered.
3. The warnings that peers can cause here are limited (see limited warnings).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..errors import ConnectionLostError, NetworkError, ProtocolError
from ..net.authentication import check_identity
from .headers import LinkFrame, LinkHello, LinkPulse, decode

if TYPE_CHECKING:
    from ..net.network import Connection
    from .timings import LinkContext

_log = logging.getLogger(__name__)

MAX_PENDING: Final = 64


class PendingConnections:
    """Those of the process `name`. `assign(peer, connection, hello)` returns False if the peer is not expected."""

    def __init__(
        self,
        name: str,
        group: asyncio.TaskGroup,
        context: LinkContext,
        assign: Callable[[str, Connection, bytes], bool],
        on_pulse: Callable[[str, int, bytes], None],
    ) -> None:
        self._name = name
        self._group = group
        self._within_s = context.timings.connect_s
        self._warn = context.warnings.warn
        self._assign = assign
        self._on_pulse = on_pulse
        self._pending: dict[Connection, None] = {}

    def accept(self, connection: Connection) -> None:
        """Take an incoming connection."""
        if len(self._pending) >= MAX_PENDING:
            self._warn("%s: too many connections without a HELLO: %s is closed", self._name, connection.peer)
            connection.close()
            return
        self._pending[connection] = None
        self._group.create_task(self._identify(connection), name=f"link {self._name}: identify {connection.peer}")

    def close(self) -> None:
        """Close the connections that are still here."""
        for connection in self._pending:
            connection.close()

    async def _identify(self, connection: Connection) -> None:
        assigned = False
        try:
            async with asyncio.timeout(self._within_s):
                frame = await connection.receive()
            first = decode(frame)
            if isinstance(first, LinkPulse):
                check_identity(connection.identity, first.name)
                await self._receive_pulses(connection, first)
                return
            if not isinstance(first, LinkHello):
                raise ProtocolError("its first frame is neither a HELLO nor a PULSE")
            name = first.greeting.decode("ascii", "backslashreplace")
            check_identity(connection.identity, name)
            assigned = self._assign(name, connection, frame)
            if not assigned:
                self._warn("%s: no link here is dialled by %.140r", self._name, name)
        except ProtocolError as error:
            self._warn("%s: %s is refused: %s", self._name, connection.peer, error)
        except (NetworkError, TimeoutError) as error:
            text = "%s: %s has sent no HELLO: %r"
            self._warn(text, self._name, connection.peer, error, level=logging.INFO)
        finally:
            self._pending.pop(connection, None)
            if not assigned:
                connection.close()

    async def _receive_pulses(self, connection: Connection, pulse: LinkPulse) -> None:
        """Report each PULSE until the sending thread closes the connection or is silent."""
        found: LinkFrame = pulse
        try:
            while isinstance(found, LinkPulse) and (found.name, found.process) == (pulse.name, pulse.process):
                self._on_pulse(found.name, found.process, found.note)
                async with asyncio.timeout(self._within_s):
                    found = decode(await connection.receive())
        except (ConnectionLostError, TimeoutError) as error:
            _log.debug("%s: no more pulses of %s: %r", self._name, pulse.name, error)
