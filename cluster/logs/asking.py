"""Asking: nimbus asks the supervisors of other nodes for lines of logs.

    NodeLogs.ask(address) ─► a connection that is kept, or a new one ─► request ─► response

1. At most MAX_ASKED requests are under way at a time, and each ends within CONNECT_S and ANSWER_S.
2. A connection is kept for the next request to that node; at most MAX_KEPT are. One that has ended meanwhile is
   replaced once: a request only reads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from pydantic import ValidationError

from ...runtime import AiostormError
from ...transport import ConnectionLostError, ExposedError, NetworkError
from .wire import ANSWER, ASKED, MAX_REQUEST_BYTES, Answer

if TYPE_CHECKING:
    from ...transport import Connection, Network
    from .pieces import LogsAsked, ProcessLines

CONNECT_S: Final = 3.0
ANSWER_S: Final = 5.0
MAX_ASKED: Final = 8
MAX_KEPT: Final = 32


class NodeAwayError(AiostormError):
    """A node does not send its logs now: why, and what to do."""


class NodeLogs:
    """Asks over an authenticated network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._kept: dict[str, Connection] = {}
        self._asked = asyncio.Semaphore(MAX_ASKED)

    async def ask(self, address: str, asked: LogsAsked) -> list[ProcessLines]:
        """The next lines of each process there. NodeAwayError; ValueError if there is no such cursor or name."""
        frame = ASKED.dump_json(asked)
        if len(frame) > MAX_REQUEST_BYTES:
            raise ValueError(f"the request has {len(frame):,} bytes, and may have {MAX_REQUEST_BYTES:,}")
        async with self._asked:
            kept = self._kept.pop(address, None)
            if kept is not None:
                try:
                    return _lines(await self._exchange(address, kept, frame))
                except ConnectionLostError:
                    kept.close()  # idle for too long, or another supervisor runs there now
            try:
                return _lines(await self._exchange(address, await self._connected(address), frame))
            except ConnectionLostError as error:
                raise NodeAwayError(f"its supervisor at {address} has ended the connection: {error}") from error

    def close(self) -> None:
        """End all connections."""
        while self._kept:
            self._kept.popitem()[1].close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended: object) -> None:
        self.close()

    async def _connected(self, address: str) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._network.connect(address)
        except TimeoutError:
            raise NodeAwayError(f"its supervisor at {address} does not answer within {CONNECT_S:g} s") from None
        except ExposedError as error:
            raise NodeAwayError(
                f"this nimbus has no certificate for {address}: start it with --credentials DIR, a folder of `aiostorm "
                "certs node`"
            ) from error
        except NetworkError as error:
            raise NodeAwayError(f"its supervisor cannot be reached: {error}") from error

    async def _exchange(self, address: str, connection: Connection, frame: bytes) -> Answer:
        """ConnectionLostError if it ends before the response."""
        done = False
        try:
            async with asyncio.timeout(ANSWER_S):
                connection.send(frame)
                found = ANSWER.validate_json(await connection.receive())
            done = True
        except TimeoutError:
            raise NodeAwayError(f"its supervisor at {address} does not answer within {ANSWER_S:g} s") from None
        except ValidationError as error:
            raise NodeAwayError(
                f"its supervisor at {address} sends what cannot be read: do both run the same version?"
            ) from error
        finally:
            if not done:
                connection.close()
        while len(self._kept) >= MAX_KEPT or address in self._kept:
            self._kept.pop(address if address in self._kept else next(iter(self._kept))).close()
        self._kept[address] = connection
        return found


def _lines(answer: Answer) -> list[ProcessLines]:
    if answer.error:
        raise ValueError(answer.error)
    return list(answer.processes)
