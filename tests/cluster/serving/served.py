"""A nimbus that answers clients over a real socket, with the store in memory and the real nimbus behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiostorm import Cluster
from aiostorm.cluster.access import AuditLog, NimbusLink, RevokedCertificates, Role, TokenFile
from aiostorm.cluster.coordination import Create, MemoryStore, Put
from aiostorm.cluster.nimbus import SUPERVISORS, Nimbus, SupervisorRecord, make_folders, pack, path_of
from aiostorm.cluster.serving import NimbusServer, Served, Uploads
from aiostorm.runtime import LoopClock
from aiostorm.transport import Credentials, Security, SocketNetwork

Logs = Callable[[str, str, int], Awaitable[dict[str, list[str]]]]

ROLES = (Role.VIEWER, Role.OPERATOR, Role.SUBMITTER, Role.ADMIN)


class Place:
    """The cluster, and the files of those who ask for it."""

    def __init__(self, folder: Path, address: str, served: Served) -> None:
        self.folder = folder
        self.address = address
        self.served = served
        self.tokens = {role: Credentials.new(role.value) for role in ROLES}
        for role, token in self.tokens.items():
            self.file(role).write_bytes(token.to_bytes())
            self.file(role).chmod(0o600)
            served.tokens.add(token, role)

    def file(self, role: Role) -> Path:
        """The file that the holder of a token has."""
        return self.folder / f"{role.value}.token"

    def cluster(self, role: Role) -> Cluster:
        """A client with this role."""
        return Cluster(f"aiostorm://{self.address}", home=self.folder / "elsewhere", token_file=self.file(role))

    @asynccontextmanager
    async def link(self, token: Credentials) -> AsyncIterator[NimbusLink]:
        """A connection, for requests as they are."""
        async with SocketNetwork(Security(token)) as network:
            link = NimbusLink([self.address], token, network)
            yield link
            link.close()

    def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        path = self.folder / "audit.log"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


@asynccontextmanager
async def place(
    folder: Path, listen: str = "", security: Security | None = None, logs: Logs | None = None
) -> AsyncIterator[Place]:
    """All of it. `listen`: empty: a unix socket. `logs`: what reads logs; None: it says what it is asked."""
    clock, store = LoopClock(), MemoryStore(LoopClock())
    secured = security or Security(Credentials.new("cluster"))

    async def echo(name: str, process: str, lines: int) -> dict[str, list[str]]:
        return {process or "parent": [f"{name} {lines}"]}

    served = Served(
        TokenFile(folder / "tokens"), AuditLog(folder / "audit.log"), Uploads(folder / "code"), logs or echo, clock
    )
    async with contextlib.AsyncExitStack() as stack:
        coordination = await stack.enter_async_context(store.client(session_s=3600))
        await make_folders(coordination)
        record = SupervisorRecord(platform.node(), "", 4)
        await coordination.commit(
            [Create(path_of(SUPERVISORS, "a"), pack(record), ephemeral=True), Put(SUPERVISORS, b"")]
        )
        leading = asyncio.create_task(Nimbus(coordination, clock, b"nimbus-1").run())
        served.cluster = await stack.enter_async_context(
            Cluster(
                "memory:",
                home=folder / "home",
                ordered_by=None,
                open_store=lambda url, clock: store.client(session_s=3600),
            )
        )
        served.revoked = RevokedCertificates(coordination)
        network = await stack.enter_async_context(SocketNetwork(secured))
        at: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        address = listen or f"unix:{folder}/run/nimbus"
        serving = asyncio.create_task(NimbusServer(served, network).serve(address, at.set_result))
        try:
            yield Place(folder, await at, served)
        finally:
            serving.cancel()
            leading.cancel()
            await asyncio.wait([serving, leading])
