"""PendingConnections: who has dialled this process, until it is known which link that is for.

    knocked ─► first frame ─┬─ HELLO of a peer that is to dial ─► its link
                            ├─ PULSE ─► on_pulse, for each that comes, until the connection ends
                            ╰─ anything else, or nothing within `within_s` ─► closed

1. Who knocks says its name in its first HELLO; where connections are authenticated, it must be the one that was part of
   what it has proved. At most MAX_KNOCKING are between the two at a time.
2. A PULSE comes from a thread of a process whose event loop is held by user code, on a connection of its own: it says
   that the process lives. It says nothing else, and nothing is answered.
3. What whoever knocks can cause in the log is limited (see limited warnings).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ..errors import ConnectionLostError, NetworkError, ProtocolError
from ..net.authentication import check_identity
from ..net.limited_warnings import LimitedWarnings
from ..net.network import Connection
from .headers import greeting_of, pulse_of

_log = logging.getLogger(__name__)

MAX_KNOCKING: Final = 64


class PendingConnections:
    """Of the process `name`. `take(peer, connection, hello)`: False if that peer is not expected."""

    def __init__(
        self,
        name: str,
        group: asyncio.TaskGroup,
        within_s: float,
        take: Callable[[str, Connection, bytes], bool],
        on_pulse: Callable[[str, int], None],
        limited_warnings: LimitedWarnings,
    ) -> None:
        self._name = name
        self._group = group
        self._within_s = within_s
        self._take = take
        self._on_pulse = on_pulse
        self._limited_warnings = limited_warnings
        self._knocking: dict[Connection, None] = {}

    def knocked(self, connection: Connection) -> None:
        """Somebody has dialled."""
        if len(self._knocking) >= MAX_KNOCKING:
            self._limited_warnings.warn(
                "%s: too many that have not said who they are: %s is turned away", self._name, connection.peer
            )
            connection.close()
            return
        self._knocking[connection] = None
        self._group.create_task(self._let_in(connection), name=f"link {self._name}: who is {connection.peer}?")

    def close(self) -> None:
        """Nobody comes in any more."""
        for connection in self._knocking:
            connection.close()

    async def _let_in(self, connection: Connection) -> None:
        given = False
        try:
            async with asyncio.timeout(self._within_s):
                frame, name, process = await _first(connection)
            check_identity(connection, name)
            if process is not None:
                await self._pulses(connection, name, process)
            elif self._take(name, connection, frame):
                given = True
            else:
                self._limited_warnings.warn("%s: nobody here is to be dialled by %.140r", self._name, name)
        except ProtocolError as error:
            self._limited_warnings.warn("%s: %s is turned away: %s", self._name, connection.peer, error)
        except (NetworkError, TimeoutError) as error:
            told = "%s: %s has not said who it is: %r"
            self._limited_warnings.warn(told, self._name, connection.peer, error, level=logging.INFO)
        finally:
            self._knocking.pop(connection, None)
            if not given:
                connection.close()

    async def _pulses(self, connection: Connection, name: str, process: int) -> None:
        """Tell of each, until the thread that sends them has no reason any more, or is silent."""
        told: tuple[int, str] | None = (process, name)
        try:
            while told == (process, name):
                self._on_pulse(name, process)
                async with asyncio.timeout(self._within_s):
                    told = pulse_of(await connection.receive())
        except (ConnectionLostError, TimeoutError) as error:
            _log.debug("%s: no more pulses of %s: %r", self._name, name, error)


async def _first(connection: Connection) -> tuple[bytes, str, int | None]:
    """The first HELLO or PULSE: the frame, its name, and the process of a PULSE."""
    while True:
        frame = await connection.receive()
        pulse = pulse_of(frame)
        if pulse is not None:
            return frame, pulse[1], pulse[0]
        greeting = greeting_of(frame)
        if greeting is not None:  # what has overtaken it comes again
            return frame, greeting.decode("ascii", "backslashreplace"), None
