"""Session: one authenticated connection of a client to nimbus: its requests, one after the other.

    request ─► is the token still valid? ─► operation ─► role ─► arguments ─► done ─► response
                                                 └─ changes something: the audit log, before and after

1. Whether the token is valid, and which role it has, is looked up for each request: one that was revoked a moment ago
   is refused on an open connection, too. So it is with a certificate: its end, and the list of those revoked.
2. What is refused because of its role is in the audit log, as what was done is.
3. An error is a response, with its class and text. A defect of ours says no more than that: the log has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ...runtime import AiostormError
from ..access import Change, DeniedError, RequestError, error_frames, read_request, value_frames
from ..coordination import UnavailableError
from .operations import OPERATIONS

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from ...runtime import Clock
    from ...transport import Connection
    from ..access import AuditLog, Holder, RevokedCertificates, TokenFile
    from ..client import Cluster
    from ..logs import LogsAsked, ProcessLines
    from .operations import Operation
    from .uploads import UploadedFile, Uploads

log = logging.getLogger("aiostorm.nimbus")

IDLE_S: Final = 120.0
"""A client that sends no request for so long is disconnected."""

PIECE_S: Final = 30.0
"""How long to wait for the next piece of code."""

_NO_STORE: Final = "this nimbus cannot reach the cluster's store: try again, or another nimbus"

Logs = Callable[[str, str, int], Awaitable[dict[str, list[str]]]]
"""Topology, process (empty: all), how many lines → the last lines of each process."""

AskNode = Callable[[str, "LogsAsked"], Awaitable[list["ProcessLines"]]]
"""A node, and what is asked of its logs → the next lines of each process. NodeAwayError."""


@dataclass(slots=True)
class Served:
    """What all sessions of a nimbus share. `cluster`, `revoked`: None while the store cannot be reached.

    `node_logs`: None: this nimbus asks no nodes.
    """

    tokens: TokenFile
    audit: AuditLog
    uploads: Uploads
    logs: Logs
    clock: Clock
    cluster: Cluster | None = None
    revoked: RevokedCertificates | None = None
    node_logs: AskNode | None = None
    one_submission: asyncio.Lock = field(default_factory=asyncio.Lock)


class Session:
    """One connection. `origin`: where it comes from."""

    def __init__(self, served: Served, connection: Connection, holder: Holder, origin: str) -> None:
        self.logs = served.logs
        self.tokens = served.tokens
        self._served = served
        self._connection = connection
        self._holder = holder
        self._origin = origin
        self._upload: UploadedFile | None = None

    @property
    def who(self) -> str:
        """The name of the token, or `cert:` and that of the certificate."""
        return self._holder.name

    @property
    def cluster(self) -> Cluster:
        """The cluster. UnavailableError while the store cannot be reached."""
        if self._served.cluster is None:
            raise UnavailableError(_NO_STORE)
        return self._served.cluster

    @property
    def revoked(self) -> RevokedCertificates:
        """The certificates that are not accepted any more. UnavailableError while the store cannot be reached."""
        if self._served.revoked is None:
            raise UnavailableError(_NO_STORE)
        return self._served.revoked

    async def run(self) -> None:
        """Answer requests until the connection ends. ConnectionLostError, TimeoutError."""
        try:
            while True:
                async with asyncio.timeout(IDLE_S):
                    frame = await self._connection.receive()
                for response in await self._answer(frame):
                    async with asyncio.timeout(IDLE_S):
                        self._connection.send(response)
                        await self._connection.drained()
                if self._upload is not None and not self._upload.whole:
                    for response in await self._receive(self._upload):
                        self._connection.send(response)
        finally:
            await self._drop_upload()

    async def node_logs(self, node: str, asked: LogsAsked) -> list[ProcessLines]:
        """The next lines of a topology's processes on a node. NodeAwayError."""
        if self._served.node_logs is None:
            raise RequestError("this nimbus asks no nodes for logs")
        return await self._served.node_logs(node, asked)

    # -- for operations ------------------------------------------------------------------------------------------------

    async def begin_upload(self, size_bytes: int, sha256: str) -> None:
        """Code follows. As Uploads.begin."""
        await self._drop_upload()
        self._upload = await self._served.uploads.begin(size_bytes, sha256)

    @asynccontextmanager
    async def code(self, wanted: bool) -> AsyncIterator[Path | None]:
        """The code that this connection has sent, for one submission; one at a time reads it into memory."""
        if not wanted:
            yield None
            return
        if self._upload is None or not self._upload.whole:
            raise RequestError("this connection has sent no code: send it again")
        try:
            async with self._served.one_submission:
                yield self._upload.path
        finally:
            await self._drop_upload()

    async def revoke(self, name: str) -> None:
        """Revoke a token. ValueError if there is none of this name; CredentialsError, OSError."""
        await asyncio.to_thread(self.tokens.revoke, name)

    async def revoke_certificate(self, sha256: str, ends_s: float) -> None:
        """Revoke a certificate of a client. ValueError if it is no fingerprint; UnavailableError."""
        await self.revoked.add(sha256, self._served.clock.now(), self.who, ends_s)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _answer(self, frame: bytes) -> Iterator[bytes]:
        try:
            request = read_request(frame)
            operation = OPERATIONS.get(request.request)
            if operation is None:
                raise RequestError(f"nimbus knows no request {request.request!r:.80}: do both run the same version?")
            value = await self._done(operation, request.arguments)
            return value_frames(operation.written(value))
        except (AiostormError, ValueError, OSError) as error:
            return error_frames(type(error).__name__, str(error))
        except Exception:
            log.exception("a request of %s failed", self.who)
            return error_frames("ClusterError", "this failed: the log of nimbus has more")

    async def _done(self, operation: Operation, arguments: dict[str, JsonValue]) -> object:
        if not operation.changes:
            await self._check_role(operation)
            return await operation.carry_out(self, operation.read(arguments))
        async with self._served.audit.ordered(partial(self._change, operation.name, arguments)):
            await self._check_role(operation)
            return await operation.carry_out(self, operation.read(arguments))

    def _change(self, what: str, arguments: dict[str, JsonValue], result: str) -> Change:
        holder, at_s = self._holder, self._served.clock.now()
        change = Change(at_s, holder.name, holder.role.value, self._origin, what, arguments, result)
        return replace(change, certificate=holder.certificate)

    async def _check_role(self, operation: Operation) -> None:
        self._holder = now = await self._still()
        if not now.role.includes(operation.role):
            raise DeniedError(
                f"{operation.name} needs the role {operation.role.value}, and {now.shown} has the role {now.role.value}"
            )

    async def _still(self) -> Holder:
        """Who has authenticated, with the role of now. DeniedError: it is not valid any more."""
        holder, now_s = self._holder, self._served.clock.now()
        certificate = holder.certificate
        now = self.tokens.tokens.still(holder, now_s) if certificate is None else holder
        if certificate is not None and (now_s >= certificate.ends_s or await self.revoked.has(certificate.sha256)):
            now = None
        if now is None:
            raise DeniedError(f"{holder.shown} was revoked, or has ended")
        return now

    async def _receive(self, upload: UploadedFile) -> Iterator[bytes]:
        """Take the pieces of code. What is wrong with them ends the connection, after the response."""
        try:
            whole = False
            while not whole:
                async with asyncio.timeout(PIECE_S):
                    piece = await self._connection.receive()
                whole = await upload.add(piece)
            return value_frames(b"null")
        except (AiostormError, OSError) as error:
            if isinstance(error, ConnectionError | TimeoutError):
                raise
            await self._drop_upload()
            return error_frames(type(error).__name__, str(error))

    async def _drop_upload(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            await upload.close()
