"""LogServer: a supervisor sends the output of its processes to nimbus.

    accept (TLS, token) ─► request ─► read_pieces in a thread ─► response ─► … ─► idle for IDLE_S: closed

1. Nothing but these requests is answered, and each only reads: the next lines of the logs of one topology.
2. A request has at most MAX_REQUEST_BYTES, a response is one frame. At most MAX_CLIENTS connections, and MAX_READING
   readings at a time: a slow reader holds one response, for SEND_S at most.
3. Who may ask has the node's credentials: nimbus, which asks only for those whose role allows it (serving).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from ...transport import ConnectionLostError, LimitedWarnings
from ..names import check_name
from .pieces import LogsAsked, read_pieces
from .wire import ANSWER, ASKED, MAX_REQUEST_BYTES, Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime import Clock
    from ...transport import Connection, Network
    from ..home import Home

log = logging.getLogger("aiostorm.supervisor")

MAX_CLIENTS: Final = 16
MAX_READING: Final = 4
IDLE_S: Final = 60.0
SEND_S: Final = 10.0


class LogServer:
    """Answers over an authenticated network."""

    def __init__(self, home: Home, network: Network, clock: Clock) -> None:
        self._home = home
        self._network = network
        self._clients = 0
        self._reading = asyncio.Semaphore(MAX_READING)
        self._warnings = LimitedWarnings(clock, log)

    async def serve(self, address: str, on_listening: Callable[[str], None]) -> None:
        """Answer until the call is cancelled. `on_listening`: is called with the real address. NetworkError."""
        async with asyncio.TaskGroup() as group:
            listener = await self._network.listen(address, lambda made: self._accept(made, group))
            try:
                on_listening(listener.address)
                await asyncio.get_running_loop().create_future()
            finally:
                listener.close()

    def _accept(self, connection: Connection, group: asyncio.TaskGroup) -> None:
        if self._clients >= MAX_CLIENTS:
            self._warnings.warn("too many ask for logs: %s is disconnected", connection.peer)
            connection.close()
            return
        self._clients += 1
        group.create_task(self._serve(connection), name=f"logs for {connection.peer}")

    async def _serve(self, connection: Connection) -> None:
        try:
            while True:
                async with asyncio.timeout(IDLE_S):
                    frame = await connection.receive()
                answer = await self._answer(frame)
                async with asyncio.timeout(SEND_S):
                    connection.send(ANSWER.dump_json(answer))
                    await connection.drained()
        except (ConnectionLostError, TimeoutError) as error:
            log.debug("%s asks for no more logs: %r", connection.peer, error)
        except Exception:
            log.exception("the logs for %s could not be sent", connection.peer)
        finally:
            self._clients -= 1
            connection.close()

    async def _answer(self, frame: bytes) -> Answer:
        try:
            if len(frame) > MAX_REQUEST_BYTES:
                raise ValueError(f"a request of {len(frame):,} bytes: at most {MAX_REQUEST_BYTES:,}")
            asked = _read(ASKED, frame)
            check_name(asked.name)
            async with self._reading:
                return Answer(tuple(await asyncio.to_thread(read_pieces, self._home.logs(asked.name), asked)))
        except (ValueError, OSError) as error:
            return Answer(error=str(error))


def _read(adapter: TypeAdapter[LogsAsked], frame: bytes) -> LogsAsked:
    try:
        return adapter.validate_json(frame)
    except ValidationError as error:
        raise ValueError("this is no request for logs: do nimbus and this supervisor run the same version?") from error
